"""Keys and values of one attention layer with spare room for rows and tokens, written in place."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicLayer

GROWTH = 1.5


class RoomyLayer(DynamicLayer):
    """Keys and values ``[rows, H, k, D]`` in buffers with room for ``room`` tokens per row.

    A pass sees some rows of equal length (:meth:`look_at`) and appends its new tokens to them.
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
            buffer[self._rows, :, self.used : end] = states
        return self.look_at(self._rows, end)

    def look_at(self, rows: slice, length: int) -> tuple[Tensor, Tensor]:
        """Show these rows with ``length`` tokens to the next pass and return their keys and values."""
        self._rows, self.used = rows, length
        keys, values = self.held(rows, length)
        self.keys, self.values = keys, values
        return keys, values

    def held(self, rows: slice, length: int) -> list[Tensor]:
        """Return views of the keys and values of the first ``length`` tokens of some rows."""
        return [buffer[rows, :, :length] for buffer in self.buffers]

    def branch(self, parents: Tensor, length: int, most: int) -> None:
        """Add a copy of ``parents`` ``[n]``, of up to ``length`` tokens; at most ``most`` rows will be needed."""
        parents = parents.to(self.buffers[0].device)
        needed = self.count + len(parents)
        if needed > len(self.buffers[0]):
            rows = max(needed, min(int(GROWTH * len(self.buffers[0])), most))
            room = self.buffers[0].shape[2]
            self.buffers = [_buffer(held, rows, room) for held in self.held(slice(0, self.count), length)]
        for buffer in self.buffers:
            buffer[self.count : needed, :, :length] = buffer[parents, :, :length]
        self.count = needed
        # Otherwise the views of the last pass would keep the old buffers in memory.
        self.look_at(self._rows, self.used)

    def select(self, rows: Tensor, length: int) -> RoomyLayer:
        """Return an independent layer with ``rows`` ``[n]`` of this layer, of up to ``length`` tokens."""
        keys, values = (held[rows.to(held.device)] for held in self.held(slice(0, self.count), length))
        return RoomyLayer(keys, values, self.buffers[0].shape[2])


def _buffer(held: Tensor, rows: int, room: int) -> Tensor:
    made = held.new_empty(rows, held.shape[1], room, held.shape[3])
    made[: held.shape[0], :, : held.shape[2]] = held
    return made
