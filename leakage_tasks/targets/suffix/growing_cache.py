"""What a causal model remembers of a batch of texts that grows: rows are added, seldom dropped, one token at a time.

There may be more rows than one pass has: passes over some rows each, one after the other, make all of them longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from leakage_tasks.targets.causal.cache import RowState

ALL = slice(None)


class StateChangesForm(Exception):
    """A state that was of one form however many tokens were read is of another after one more."""


class GrowingCache(Protocol):
    """State of ``rows`` texts, of equal length but where it :meth:`mixes` lengths."""

    many_tokens: bool
    """Whether the model can go on from it with several tokens at once."""

    @property
    def rows(self) -> int:
        """Texts there are."""

    def row_bytes(self, more: int) -> int:
        """Memory that a row takes with ``more`` tokens after those it has."""

    def feed(self, rows: slice = ALL) -> Any:
        """The cache that the next forward pass takes for some rows of equal length.

        They are those after the last pass', or the first, but where lengths mix.
        """

    def took(self, cache: Any) -> None:
        """Remember the cache that the pass gave back."""

    def mixes(self, attention: bool) -> bool:
        """Whether it is a :class:`MixingCache`; ``attention``: whether one of attention would be."""

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` ``[n]`` after the last row; there will be no more than ``most`` rows."""

    def select(self, rows: Tensor) -> GrowingCache:
        """A state of its own with ``rows`` ``[n]`` of this one."""


class MixingCache(GrowingCache, Protocol):
    """State of texts of which those of different lengths may share a pass."""

    def states(self, parts: Sequence[slice]) -> list[RowState]:
        """The state of each of some parts, whose rows are of equal length."""

    def grew(self, parts: Sequence[slice], states: Sequence[RowState]) -> None:
        """Remember the states of those parts a token later."""
