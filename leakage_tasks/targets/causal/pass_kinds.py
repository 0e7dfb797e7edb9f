"""Kinds of forward passes, and what they return."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.targets.causal.text_rows import TextRows


class Begun(NamedTuple):
    """n texts that were read from their first token.

    ``costs`` ``[length − 1]`` are in bits, for each token after the first; ``logits`` ``[n, V]`` for the next token.
    """

    rows: TextRows
    costs: list[FloatArray]
    logits: Tensor


class Kind(NamedTuple):
    """A kind of pass over texts that were read before.

    ``lengths`` and ``sources`` say whether texts of several lengths, and after several source sentences, are continued.
    The model's computation changes at some lengths: ``beyond`` is the number of these below the longest text, and
    ``turns`` the number between the shortest and the longest.
    """

    context: bool
    """The texts begin with the shared context."""
    many: bool
    """Several tokens are read after each text."""
    lengths: bool
    sources: bool
    beyond: int
    turns: int = 0

    def covers(self, other: Kind) -> bool:
        """Return True if a pass of this kind proves one of the other kind."""
        return self[:2] == other[:2] and all(mine >= theirs for mine, theirs in zip(self[2:], other[2:], strict=True))


class CannotReadMany(Exception):
    """The model reads only one token at a time after a cached state."""
