"""Keys and values of one attention layer that are written in place, with room for more rows and tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicLayer

GROWTH = 1.5


class RoomyLayer(DynamicLayer):
    """Keys and values ``[rows, H, k, D]`` in buffers with room for ``room`` tokens a row.

    A pass is shown some rows, all of one length (:meth:`look_at`), and writes what it adds after it.
    """

    def __init__(self, keys: Tensor, values: Tensor, room: int) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True
        self.count = len(keys)
        self.buffers = [_buffer(held, self.count, room) for held in (keys, values)]
        self.look_at(slice(0, self.count), keys.shape[2])

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Write the new tokens' keys and values in place; return all of them."""
        end = self.used + key_states.shape[-2]
        for buffer, states in zip(self.buffers, (key_states, value_states), strict=True):
            buffer[self._rows, :, self.used : end] = states
        return self.look_at(self._rows, end)

    def look_at(self, rows: slice, length: int) -> tuple[Tensor, Tensor]:
        """Show the next pass these rows, which have ``length`` tokens; their keys and values."""
        self._rows, self.used = rows, length
        keys, values = self.held(rows, length)
        self.keys, self.values = keys, values
        return keys, values

    def held(self, rows: slice, length: int) -> list[Tensor]:
        """Keys and values of the first ``length`` tokens of some rows, not copied."""
        return [buffer[rows, :, :length] for buffer in self.buffers]

    def branch(self, parents: Tensor, length: int, most: int) -> None:
        """Add a copy of each of ``parents`` ``[n]`` of up to ``length`` tokens; there will be at most ``most`` rows."""
        parents = parents.to(self.buffers[0].device)
        needed = self.count + len(parents)
        if needed > len(self.buffers[0]):
            rows = max(needed, min(int(GROWTH * len(self.buffers[0])), most))
            room = self.buffers[0].shape[2]
            self.buffers = [_buffer(held, rows, room) for held in self.held(slice(0, self.count), length)]
        for buffer in self.buffers:
            buffer[self.count : needed, :, :length] = buffer[parents, :, :length]
        self.count = needed
        # What the last pass was shown would keep buffers that were too small.
        self.look_at(self._rows, self.used)

    def select(self, rows: Tensor, length: int) -> RoomyLayer:
        """A layer of its own with ``rows`` ``[n]`` of this one, of up to ``length`` tokens."""
        keys, values = (held[rows.to(held.device)] for held in self.held(slice(0, self.count), length))
        return RoomyLayer(keys, values, self.buffers[0].shape[2])


def _buffer(held: Tensor, rows: int, room: int) -> Tensor:
    made = held.new_empty(rows, held.shape[1], room, held.shape[3])
    made[: held.shape[0], :, : held.shape[2]] = held
    return made
