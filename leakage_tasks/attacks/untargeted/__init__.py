"""Untargeted extraction: texts that a model writes without a given prefix are searched for training text."""
