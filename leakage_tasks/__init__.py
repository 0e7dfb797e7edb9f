"""Measures how much of a model's training data can be got out of it, inside the LM Evaluation Harness."""

__version__ = "0.1.0"
