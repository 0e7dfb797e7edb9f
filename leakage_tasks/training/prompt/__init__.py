"""Tuning a soft prompt that draws training data out of a causal model."""
