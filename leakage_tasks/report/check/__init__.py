"""Limits on leakage, for continuous integration."""
