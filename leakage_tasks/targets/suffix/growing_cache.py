"""Cached states of a growing batch of texts: rows are added, seldom dropped, and extended by tokens.

All texts of a batch have equal length. A batch may have more rows than one pass; successive passes then extend some of
the rows each, in their order, until all texts are one token longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import bytes_of, filled, hollow, tensors_of
from leakage_tasks.targets.devices import moved

ALL = slice(None)


class GrowingCache(Protocol):
    """State of ``rows`` texts of equal length."""

    many_tokens: bool
    """True if the model can read several tokens at once after this state."""

    @property
    def rows(self) -> int:
        """Number of texts."""

    def row_bytes(self, more: int) -> int:
        """Return the memory in bytes of a row with ``more`` additional tokens."""

    def feed(self, rows: slice = ALL) -> Any:
        """Return the cache for the next forward pass over some rows: the first, or those after the last pass'."""

    def took(self, cache: Any) -> None:
        """Store the cache that the pass returned."""

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` ``[n]`` after the last row; at most ``most`` rows will be needed."""

    def select(self, rows: Tensor) -> GrowingCache:
        """Return an independent state with ``rows`` ``[n]`` of this state."""


class WholeStateCache:
    """A :class:`GrowingCache` of any state but plain attention, stored in full per row.

    ``shell`` is the model's cache object without its ``tensors`` ``[rows, …]``, and ``read`` the number of tokens at
    first.
    """

    many_tokens = False

    def __init__(self, shell: Any, tensors: Sequence[Tensor], read: int) -> None:
        self._shell, self._tensors, self._read = shell, tensors, read
        self._grown: list[Any] = []

    @property
    def rows(self) -> int:
        return len(self._tensors[0])

    def row_bytes(self, more: int) -> int:
        # Some layers may be attention layers, whose state grows, so this is an upper bound.
        return bytes_of(self._tensors) * (self._read + more) // (self._read * max(self.rows, 1))

    def feed(self, rows: slice = ALL) -> Any:
        return filled(self._shell, [tensor[rows] for tensor in self._tensors])

    def took(self, cache: Any) -> None:
        self._grown.append(cache)
        parts = list(map(tensors_of, self._grown))
        if sum(len(tensors[0]) for tensors in parts) == self.rows:
            # The form of the state may depend on the number of tokens, so its shell is new too.
            self._shell, self._tensors, self._grown = hollow(cache), _joined(parts), []

    def branch(self, parents: Tensor, most: int) -> None:
        self._tensors = self._pick(torch.cat([torch.arange(self.rows), parents.cpu()]))

    def select(self, rows: Tensor) -> WholeStateCache:
        return WholeStateCache(self._shell, self._pick(rows.cpu()), self._read)

    def _pick(self, rows: Tensor) -> list[Tensor]:
        return [tensor.index_select(0, moved(rows, tensor.device)) for tensor in self._tensors]


class NoCache(WholeStateCache):
    """A :class:`GrowingCache` whose state is the tokens alone, read again from the first at every step."""

    many_tokens = True

    def __init__(self, tokens: Tensor) -> None:
        super().__init__(hollow(tokens), [tokens], tokens.shape[1])

    def row_bytes(self, more: int) -> int:
        """Return 0, since there is no cache."""
        return 0

    def select(self, rows: Tensor) -> NoCache:
        # All tokens are on one device: a copy of the rows to the host would wait for it.
        return NoCache(*self._pick(rows))


def _joined(parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Return each tensor of the states of successive passes, which one pass need not copy."""
    return [column[0] if len(parts) == 1 else torch.cat(column) for column in zip(*parts, strict=True)]
