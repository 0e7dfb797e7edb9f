"""Harness models as targets."""
