"""Attacks on whatever scores text."""
