"""Saved samples scored again."""
