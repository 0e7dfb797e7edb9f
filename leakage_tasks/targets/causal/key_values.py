"""Keys and values of attention layers: one row of a table per token, gathered for each forward pass.

A pass over n texts selects the rows of their tokens, ``[n, tokens, H, D]``, and writes those of the new tokens. It
takes two selections and two writes per layer, however many canaries the texts belong to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakage_tasks.core.arrays import BoolArray, IntArray
from leakage_tasks.targets.causal.cache import bytes_of
from leakage_tasks.targets.devices import PerDevice

NOTHING = 0
"""Row of the empty text. It is never freed, and padding refers to it."""


class KeyValueTable:
    """The keys and values ``[rows, H, D]`` of each layer's attention."""

    def __init__(self, cache: Any) -> None:
        self.layers = [
            [tensor.new_zeros(1, tensor.shape[1], tensor.shape[3]) for tensor in (layer.keys, layer.values)]
            for layer in cache.layers
        ]
        self.row_bytes = bytes_of([tensor for layer in self.layers for tensor in layer])
        """Memory of a row in bytes."""

    @property
    def copied_bytes(self) -> float:
        """Memory in bytes of one layer's copies of a row: those that are selected, and those that attention makes."""
        return 2 * self.row_bytes / len(self.layers)

    def make_room(self, rows: int) -> None:
        """Grow to ``rows`` rows."""
        for layer in self.layers:
            for place, tensor in enumerate(layer):
                if len(tensor) < rows:
                    layer[place] = tensor.new_empty(rows, *tensor.shape[1:])
                    layer[place][: len(tensor)] = tensor

    def store(self, cache: Any, rows: IntArray, places: IntArray) -> None:
        """Write keys and values of a cache ``[n, H, T, D]``: token ``places[i]`` of n · T tokens to row ``rows[i]``."""
        to, chosen = PerDevice(rows), PerDevice(places)
        for layer, read in zip(self.layers, cache.layers, strict=True):
            for tensor, states in zip(layer, (read.keys, read.values), strict=True):
                read_states = states.transpose(1, 2).flatten(0, 1).index_select(0, chosen.on(states.device))
                tensor.index_copy_(0, to.on(tensor.device), read_states)

    def whole(self, rows: IntArray) -> list[Tensor]:
        """Return keys and values ``[1, H, T, D]`` of each layer for one text of rows ``[T]``."""
        chosen = PerDevice(rows)
        return [
            tensor.index_select(0, chosen.on(tensor.device)).transpose(0, 1)[None].contiguous()
            for layer in self.layers
            for tensor in layer
        ]


@dataclass(frozen=True)
class Reading:
    """The tokens that a pass reads: after ``past`` ``[n, T]`` rows, padded on the left, come new rows ``[n, k]``.

    ``new`` is None if the new tokens are not kept; ``added`` ``[n, k]`` is False for padding on the right. ``before``
    is the number of tokens ahead of ``past`` that all texts share.
    """

    past: IntArray
    new: IntArray | None
    added: BoolArray
    before: int = 0

    @property
    def width(self) -> int:
        """Number of tokens that are read after each text, padding included."""
        return self.added.shape[1]

    @property
    def own(self) -> IntArray:
        """Number of tokens of each text in ``past``, ``[n]``."""
        return np.count_nonzero(self.past != NOTHING, axis=1)

    @property
    def mask(self) -> IntArray | None:
        """Mask ``[n, T + k]`` that is 0 for padding of ``past``; None if it would be all 1."""
        if not (self.past == NOTHING).any():
            return None
        return np.concatenate([self.past != NOTHING, np.ones_like(self.added)], axis=1).astype(np.int64)

    @property
    def positions(self) -> IntArray:
        """Position of each new token, ``[n, k]``."""
        return self.before + self.own[:, None] + np.arange(self.width)


class _Layer(DynamicLayer):
    """One layer of the cache that a pass gets: it stores the new tokens in the table and returns all of them."""

    def __init__(self, number: int, batch: KeyValueBatch) -> None:
        super().__init__()
        like = batch.table.layers[number][0]
        self.dtype, self.device, self.is_initialized = like.dtype, like.device, True
        self._number, self._batch, self._length = number, batch, batch.seen

    def update(self, key_states: Tensor, value_states: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
        """Return keys and values ``[n, H, T + k, D]`` of past and new tokens."""
        self._length += key_states.shape[2]
        return self._batch.update(self._number, key_states, value_states)

    def get_seq_length(self) -> int:
        """Return the number of tokens read, padding included."""
        return self._length


class KeyValueBatch:
    """The rows of one pass over texts of a :class:`KeyValueTable`."""

    def __init__(self, table: KeyValueTable, reading: Reading) -> None:
        self.table, self._reading = table, reading
        self.seen = reading.before + reading.past.shape[1]
        self.layer = 0
        """Number of the layer that was updated last."""
        at_once = reading.new is not None and reading.width == 1
        used = np.concatenate([reading.past, reading.new], axis=1) if at_once else reading.past
        self._at_once, self._shape = at_once, used.shape
        indices = [used.ravel()]
        if reading.new is not None:
            indices += [reading.new[reading.added], np.flatnonzero(reading.added)]
        self._indices = [PerDevice(index) for index in indices]

    def cache(self) -> DynamicCache:
        """Return the cache for the forward pass."""
        cache = DynamicCache()
        cache.layers = [_Layer(number, self) for number in range(len(self.table.layers))]
        return cache

    def update(self, number: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store new keys and values ``[n, H, k, D]`` and return them after those of the texts."""
        self.layer = number
        pair = zip(self.table.layers[number], (keys, values), strict=True)
        found = [self._updated(tensor, states) for tensor, states in pair]
        return found[0], found[1]

    def _updated(self, tensor: Tensor, states: Tensor) -> Tensor:
        used, *new = (index.on(tensor.device) for index in self._indices)
        # In mixed precision, rotary embeddings make keys float32, while values have 16 bits. The cache of transformers,
        # from which the table is made, then holds both in float32.
        states = states.to(tensor.dtype)
        if self._at_once:
            tensor.index_copy_(0, new[0], states[:, :, 0])
        elif new:
            tensor.index_copy_(0, new[0], states.transpose(1, 2).flatten(0, 1).index_select(0, new[1]))
        if not self._shape[1]:
            return states
        before = tensor.index_select(0, used).unflatten(0, self._shape).transpose(1, 2)
        return before if self._at_once else torch.cat([before, states], dim=2)
