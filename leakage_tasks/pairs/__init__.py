"""Pairs of a prefix and the suffix that followed it in the training data, for verbatim extraction."""

from leakage_tasks.pairs.pair import Pair

__all__ = ["Pair"]
