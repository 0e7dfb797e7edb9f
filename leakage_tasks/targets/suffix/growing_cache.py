"""What a causal model remembers of a batch of texts that grows: rows are added, seldom dropped, one token at a time.

Attention caches keep room for more rows and tokens and are written in place, so that a text that goes two ways is
copied once, where it parts, and nothing else is. Any other state is stored whole and picked from.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakage_tasks.targets.causal.cache import RowState, after, attention_only, of_rows, pick

GROWTH = 2


class GrowingCache(Protocol):
    """State of ``rows`` texts of equal length."""

    many_tokens: bool
    """Whether the model can go on from it with several tokens at once."""

    @property
    def rows(self) -> int:
        """Texts there are."""

    @property
    def row_bytes(self) -> int:
        """Memory a row takes at its full length."""

    def feed(self) -> Any:
        """The cache that the next forward pass takes."""

    def took(self, cache: Any) -> None:
        """Remember the cache that the pass gave back."""

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` ``[n]`` after the last row; there will be no more than ``most`` rows."""

    def select(self, rows: Tensor) -> GrowingCache:
        """A state of its own with ``rows`` ``[n]`` of this one."""


def growing_cache(cache: Any, length: int, more: int) -> GrowingCache:
    """The state of texts of ``length`` tokens from what the model returned for them; ``more`` are still to come."""
    if attention_only(cache):
        return AttentionCache([RoomyLayer(each.keys, each.values, each.keys.shape[2] + more) for each in cache.layers])
    return WholeStateCache(of_rows(cache), (length + more) / length)


class RoomyLayer(DynamicLayer):
    """Keys and values of one attention layer in buffers with room for more rows and ``length`` tokens in all."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.count, self.used = keys.shape[0], keys.shape[2]
        self.buffers = [_buffer(keys, keys.shape[0], length), _buffer(values, values.shape[0], length)]
        self._show()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new tokens' keys and values in place; return all of them."""
        end = self.used + key_states.shape[-2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[: self.count, :, self.used : end] = states
        self.used = end
        self._show()
        return self.shown

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` after the last row."""
        parents = parents.to(self.buffers[0].device)
        needed = self.count + len(parents)
        if needed > len(self.buffers[0]):
            room = max(needed, min(GROWTH * len(self.buffers[0]), most))
            length = self.buffers[0].shape[2]
            self.buffers = [_buffer(held, room, length) for held in self.shown]
        for buffer in self.buffers:
            buffer[self.count : needed, :, : self.used] = buffer[parents, :, : self.used]
        self.count = needed
        self._show()

    def select(self, rows: Tensor) -> RoomyLayer:
        """A layer of its own with ``rows`` of this one."""
        keys, values = self.shown
        rows = rows.to(keys.device)
        return RoomyLayer(keys[rows], values[rows], self.buffers[0].shape[2])

    def _show(self) -> None:
        keys, values = (buffer[: self.count, :, : self.used] for buffer in self.buffers)
        self.shown = keys, values
        self.keys, self.values = keys, values


class AttentionCache:
    """Rows of attention caches with room; see :class:`GrowingCache`."""

    many_tokens = True

    def __init__(self, layers: list[RoomyLayer]) -> None:
        self.layers = layers
        self._cache = DynamicCache()
        self._cache.layers[:] = self.layers

    @property
    def rows(self) -> int:
        """See :class:`GrowingCache`."""
        return self.layers[0].count

    @property
    def row_bytes(self) -> int:
        """See :class:`GrowingCache`."""
        return sum(buffer[0].numel() * buffer.element_size() for layer in self.layers for buffer in layer.buffers)

    def feed(self) -> Any:
        """See :class:`GrowingCache`."""
        return self._cache

    def took(self, cache: Any) -> None:
        """See :class:`GrowingCache`; the layers were written in place."""

    def branch(self, parents: Tensor, most: int) -> None:
        """See :class:`GrowingCache`."""
        for layer in self.layers:
            layer.branch(parents, most)

    def select(self, rows: Tensor) -> AttentionCache:
        """See :class:`GrowingCache`."""
        return AttentionCache([layer.select(rows) for layer in self.layers])


class WholeStateCache:
    """Rows of any other state, each stored whole; see :class:`GrowingCache`."""

    many_tokens = False

    def __init__(self, state: RowState, growth: float) -> None:
        self._state, self._growth = state, growth

    @property
    def rows(self) -> int:
        """See :class:`GrowingCache`."""
        return len(self._state.tensors[0])

    @property
    def row_bytes(self) -> int:
        """See :class:`GrowingCache`."""
        # Attention layers among others grow, so this is the most it may come to.
        return int(self._growth * self._state.nbytes) // max(self.rows, 1)

    def feed(self) -> Any:
        """See :class:`GrowingCache`."""
        return self._state.rebuild()

    def took(self, cache: Any) -> None:
        """See :class:`GrowingCache`."""
        self._state = after(self._state, cache)

    def branch(self, parents: Tensor, most: int) -> None:
        """See :class:`GrowingCache`."""
        self._state = self._pick(torch.cat([torch.arange(self.rows), parents.cpu()]))

    def select(self, rows: Tensor) -> WholeStateCache:
        """See :class:`GrowingCache`."""
        return WholeStateCache(self._pick(rows.cpu()), self._growth)

    def _pick(self, rows: Tensor) -> RowState:
        return pick([self._state], torch.zeros_like(rows), rows)


class NoCache:
    """Rows of models without a usable cache: their tokens, read again from the first at every step."""

    many_tokens = True

    def __init__(self, tokens: Tensor) -> None:
        self.tokens = tokens

    @property
    def rows(self) -> int:
        """See :class:`GrowingCache`."""
        return len(self.tokens)

    @property
    def row_bytes(self) -> int:
        """See :class:`GrowingCache`; there is no cache."""
        return 0

    def feed(self) -> Any:
        """See :class:`GrowingCache`; there is no cache."""
        return None

    def took(self, cache: Any) -> None:
        """See :class:`GrowingCache`; there is no cache."""

    def branch(self, parents: Tensor, most: int) -> None:
        """See :class:`GrowingCache`."""
        self.tokens = torch.cat([self.tokens, self.tokens[parents]])

    def select(self, rows: Tensor) -> NoCache:
        """See :class:`GrowingCache`."""
        return NoCache(self.tokens[rows])


def _buffer(held: Tensor, rows: int, length: int) -> Tensor:
    made = held.new_empty(rows, held.shape[1], length, held.shape[3])
    made[: held.shape[0], :, : held.shape[2]] = held
    return made
