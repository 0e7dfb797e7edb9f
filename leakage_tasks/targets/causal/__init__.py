"""Causal language models as targets."""
