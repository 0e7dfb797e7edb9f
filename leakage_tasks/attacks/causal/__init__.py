"""Attacks on all models that score text."""
