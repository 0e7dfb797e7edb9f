"""What a causal model remembers of a batch of texts that grows: rows are added, seldom dropped, one token at a time.

Attention caches keep room for more rows and tokens and are written in place, so that a text that goes two ways is
copied once, where it parts, and nothing else is. Any other state is stored whole and picked from. There may be more
rows than one pass has: passes over some rows each, from the first to the last, make all of them longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakage_tasks.targets.causal.cache import RowState, after, attention_only, join, of_rows
from leakage_tasks.targets.causal.picked import pick

GROWTH = 1.5
ALL = slice(None)


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

    def feed(self, rows: slice = ALL) -> Any:
        """The cache that the next forward pass takes for some rows, those after the last pass' or the first."""

    def took(self, cache: Any) -> None:
        """Remember the cache that the pass gave back."""

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` ``[n]`` after the last row; there will be no more than ``most`` rows."""

    def select(self, rows: Tensor) -> GrowingCache:
        """A state of its own with ``rows`` ``[n]`` of this one."""


def growing_cache(caches: Sequence[Any], length: int, more: int) -> GrowingCache:
    """The state of texts of ``length`` tokens from what the model returned for some and then for the others.

    ``more`` tokens are still to come.
    """
    whole = join([of_rows(cache) for cache in caches])
    if not attention_only(caches[0]):
        return WholeStateCache(whole, (length + more) / length)
    room = whole.tensors[0].shape[2] + more
    pairs = zip(whole.tensors[::2], whole.tensors[1::2], strict=True)
    return AttentionCache([RoomyLayer(keys, values, room) for keys, values in pairs])


class RoomyLayer(DynamicLayer):
    """Keys and values of one attention layer in buffers with room for more rows and ``length`` tokens in all."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.count, self.used = keys.shape[0], keys.shape[2]
        self._rows, self._end = ALL, self.used
        self.buffers = [_buffer(keys, keys.shape[0], length), _buffer(values, values.shape[0], length)]
        self._show(self.used)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new tokens' keys and values in place; return all of them."""
        first, last, _ = self._rows.indices(self.count)
        self._end = self.used + key_states.shape[-2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[first:last, :, self.used : self._end] = states
        self._show(self._end)
        return self.shown

    def look_at(self, rows: slice) -> None:
        """Show these rows to the next pass."""
        self._rows = rows
        self._show(self.used)

    def go_on(self) -> None:
        """After a pass over the last rows all are longer."""
        if self._rows.indices(self.count)[1] == self.count:
            self.used = self._end
            self.look_at(ALL)

    def branch(self, parents: Tensor, most: int) -> None:
        """Add a copy of each of ``parents`` after the last row."""
        parents = parents.to(self.buffers[0].device)
        needed = self.count + len(parents)
        if needed > len(self.buffers[0]):
            room = max(needed, min(int(GROWTH * len(self.buffers[0])), most))
            length = self.buffers[0].shape[2]
            self.buffers = [_buffer(held, room, length) for held in self.shown]
        for buffer in self.buffers:
            buffer[self.count : needed, :, : self.used] = buffer[parents, :, : self.used]
        self.count = needed
        self.look_at(ALL)

    def select(self, rows: Tensor) -> RoomyLayer:
        """A layer of its own with ``rows`` of this one."""
        keys, values = self.shown
        rows = rows.to(keys.device)
        return RoomyLayer(keys[rows], values[rows], self.buffers[0].shape[2])

    def _show(self, end: int) -> None:
        first, last, _ = self._rows.indices(self.count)
        keys, values = (buffer[first:last, :, :end] for buffer in self.buffers)
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

    def feed(self, rows: slice = ALL) -> Any:
        """See :class:`GrowingCache`."""
        for layer in self.layers:
            layer.look_at(rows)
        return self._cache

    def took(self, cache: Any) -> None:
        """See :class:`GrowingCache`; the layers were written in place."""
        for layer in self.layers:
            layer.go_on()

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
        self._fed = state
        self._grown: list[RowState] = []

    @property
    def rows(self) -> int:
        """See :class:`GrowingCache`."""
        return len(self._state.tensors[0])

    @property
    def row_bytes(self) -> int:
        """See :class:`GrowingCache`."""
        # Attention layers among others grow, so this is the most it may come to.
        return int(self._growth * self._state.nbytes) // max(self.rows, 1)

    def feed(self, rows: slice = ALL) -> Any:
        """See :class:`GrowingCache`."""
        self._fed = replace(self._state, tensors=[tensor[rows] for tensor in self._state.tensors])
        return self._fed.rebuild()

    def took(self, cache: Any) -> None:
        """See :class:`GrowingCache`."""
        self._grown.append(after(self._fed, cache))
        if sum(len(part.tensors[0]) for part in self._grown) == self.rows:
            self._state, self._grown = join(self._grown), []

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
        self._grown: list[Tensor] = []

    @property
    def rows(self) -> int:
        """See :class:`GrowingCache`."""
        return len(self.tokens)

    @property
    def row_bytes(self) -> int:
        """See :class:`GrowingCache`; there is no cache."""
        return 0

    def feed(self, rows: slice = ALL) -> Tensor:
        """See :class:`GrowingCache`: the tokens themselves."""
        return self.tokens[rows]

    def took(self, cache: Tensor) -> None:
        """See :class:`GrowingCache`: the tokens of the rows that were read."""
        self._grown.append(cache)
        if sum(map(len, self._grown)) == self.rows:
            self.tokens, self._grown = torch.cat(self._grown), []

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
