"""Keys and values of attention layers with spare room for rows and tokens, written in place.

A row is copied only when its text branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakage_tasks.targets.causal.cache import bytes_of
from leakage_tasks.targets.devices import moved
from leakage_tasks.targets.suffix.growing_cache import ALL

GROWTH = 1.5
"""Factor by which the room for rows grows."""


class RoomyLayer(DynamicLayer):
    """Keys and values ``[rows, H, k, D]`` of one layer in buffers with room for ``room`` tokens per row.

    A pass sees some rows (:meth:`look_at`) and appends its new tokens to them.
    """

    def __init__(self, keys: Tensor, values: Tensor, room: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.count = len(keys)
        self.buffers = [_buffer(held, self.count, room) for held in (keys, values)]
        self.look_at(slice(0, self.count), keys.shape[2])

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new tokens' keys and values in place and return all of them."""
        end = self.used + key_states.shape[-2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[self.shown, :, self.used : end] = states
        return self.look_at(self.shown, end)

    def look_at(self, rows: slice, length: int) -> tuple[Tensor, Tensor]:
        """Show these rows with ``length`` tokens to the next pass and return their keys and values."""
        self.shown, self.used = rows, length
        self.keys, self.values = self.held(rows, length)
        return self.keys, self.values

    def held(self, rows: slice, length: int) -> tuple[Tensor, Tensor]:
        """Return views of the keys and values of the first ``length`` tokens of some rows."""
        keys, values = self.buffers
        return keys[rows, :, :length], values[rows, :, :length]

    def branch(self, parents: Tensor, length: int, most: int) -> None:
        """Add a copy of ``parents`` ``[n]``, of ``length`` tokens; at most ``most`` rows will be needed."""
        parents = moved(parents, self.buffers[0].device)
        needed = self.count + len(parents)
        if needed > len(self.buffers[0]):
            rows = max(needed, min(int(GROWTH * len(self.buffers[0])), most))
            room = self.buffers[0].shape[2]
            self.buffers = [_buffer(held, rows, room) for held in self.held(slice(0, self.count), length)]
        for buffer in self.buffers:
            buffer[self.count : needed, :, :length] = buffer[parents, :, :length]
        self.count = needed
        # Otherwise the views of the last pass would keep the old buffers in memory.
        self.look_at(self.shown, self.used)

    def select(self, rows: Tensor, length: int) -> RoomyLayer:
        """Return an independent layer with ``rows`` ``[n]`` of this layer, of ``length`` tokens."""
        keys, values = (held[moved(rows, held.device)] for held in self.held(slice(0, self.count), length))
        return RoomyLayer(keys, values, self.buffers[0].shape[2])


class AttentionCache:
    """A :class:`~leakage_tasks.targets.suffix.growing_cache.GrowingCache` of attention layers, for texts of ``length``
    tokens."""

    many_tokens = True

    def __init__(self, layers: Sequence[RoomyLayer], length: int) -> None:
        self.layers, self.length = layers, length
        self._cache = DynamicCache()
        self._cache.layers[:] = layers

    @property
    def rows(self) -> int:
        return self.layers[0].count

    def row_bytes(self, more: int) -> int:
        held = [tensor for layer in self.layers for tensor in layer.held(slice(0, 1), self.length)]
        return bytes_of(held) // self.length * (self.length + more)

    def feed(self, rows: slice = ALL) -> Any:
        shown = slice(*rows.indices(self.rows))
        for layer in self.layers:
            layer.look_at(shown, self.length)
        return self._cache

    def took(self, cache: Any) -> None:
        """Update the length once all rows have the new tokens; the layers were written in place."""
        if self.layers[0].shown.stop == self.rows:
            self.length = self.layers[0].used

    def branch(self, parents: Tensor, most: int) -> None:
        # One transfer for all layers on a device.
        parents = moved(parents, self.layers[0].device)
        for layer in self.layers:
            layer.branch(parents, self.length, most)

    def select(self, rows: Tensor) -> AttentionCache:
        rows = moved(rows, self.layers[0].device)
        return AttentionCache([layer.select(rows, self.length) for layer in self.layers], self.length)


def _buffer(held: Tensor, rows: int, room: int) -> Tensor:
    made = held.new_empty(rows, held.shape[1], room, held.shape[3])
    made[: held.shape[0], :, : held.shape[2]] = held
    return made
