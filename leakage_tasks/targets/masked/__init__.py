"""Masked language models as targets."""
