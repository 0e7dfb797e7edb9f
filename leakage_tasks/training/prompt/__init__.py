"""Tuning of a soft prompt that extracts training data from a causal model."""
