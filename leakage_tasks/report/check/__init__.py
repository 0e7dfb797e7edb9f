"""Limits on leakage."""
