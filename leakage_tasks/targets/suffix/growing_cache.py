"""Interfaces for the cached state of a growing batch of texts: rows are added, seldom dropped, and extended by tokens.

A batch may have more rows than one pass; successive passes then extend some of the rows each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from leakage_tasks.targets.causal.cache import filled

ALL = slice(None)


@dataclass
class PartState:
    """The state of n texts of ``length`` tokens: a cache object without tensors, and its tensors ``[n, …]``."""

    shell: Any
    tensors: list[Tensor]
    length: int

    def cache(self) -> Any:
        """Return the cache for a forward pass."""
        return filled(self.shell, self.tensors)


class StateChangesForm(Exception):
    """The state of a model that was expected to keep one form has changed its form after one more token."""


class GrowingCache(Protocol):
    """State of ``rows`` texts, of equal length unless it :meth:`mixes` lengths."""

    many_tokens: bool
    """True if the model can read several tokens at once after this state."""

    @property
    def rows(self) -> int:
        """Number of texts."""

    def row_bytes(self, more: int) -> int:
        """Return the memory in bytes of a row with ``more`` additional tokens."""

    def feed(self, rows: slice = ALL) -> Any:
        """Return the cache for the next forward pass over some rows of equal length.

        Unless lengths mix, these rows are the first, or follow the rows of the last pass.
        """

    def took(self, cache: Any) -> None:
        """Store the cache that the pass returned."""

    def mixes(self) -> bool:
        """Return True if this is a :class:`MixingCache`."""

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` ``[n]`` after the last row; at most ``most`` rows will be needed."""

    def select(self, rows: Tensor) -> GrowingCache:
        """Return an independent state with ``rows`` ``[n]`` of this state."""


class MixingCache(GrowingCache, Protocol):
    """State of texts that may share a pass even if their lengths differ."""

    def states(self, parts: Sequence[slice]) -> list[PartState]:
        """Return the state of each part, whose rows have equal length."""

    def grew(self, parts: Sequence[slice], states: Sequence[PartState]) -> None:
        """Store the states of the parts after one more token."""
