"""What is to be recovered verbatim: pairs of a prefix and the suffix that followed it in the training data."""

from leakage_tasks.pairs.pair import Pair

__all__ = ["Pair"]
