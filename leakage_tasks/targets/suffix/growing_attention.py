"""KV caches with spare room for rows and tokens, written in place.

A row is copied only when its text branches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor
from transformers.cache_utils import DynamicCache

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.causal.cache import bytes_of
from leakage_tasks.targets.suffix.growing_cache import ALL, PartState
from leakage_tasks.targets.suffix.roomy_layer import RoomyLayer


class AttentionCache:
    """A :class:`GrowingCache` of attention layers, with rows of ``lengths`` ``[rows]`` tokens.

    ``shell`` is the model's cache object without tensors.
    """

    many_tokens = True

    def __init__(self, shell: Any, layers: list[RoomyLayer], lengths: IntArray) -> None:
        self._shell, self.layers, self.lengths = shell, layers, lengths
        self._fed = ALL
        self._cache = DynamicCache()
        self._cache.layers[:] = self.layers

    @property
    def rows(self) -> int:
        return len(self.lengths)

    def row_bytes(self, more: int) -> int:
        read = int(self.lengths[0])
        (row,) = self.states([slice(0, 1)])
        return bytes_of(row.tensors) // read * (read + more)

    def feed(self, rows: slice = ALL) -> Any:
        self._fed = slice(*rows.indices(self.rows))
        for layer in self.layers:
            layer.look_at(self._fed, self._length(self._fed))
        return self._cache

    def took(self, cache: Any) -> None:
        """Update the lengths; the layers were written in place."""
        self.lengths[self._fed] = self.layers[0].used

    def mixes(self) -> bool:
        return True

    def states(self, parts: Sequence[slice]) -> list[PartState]:
        """Return views of the parts."""
        lengths = [self._length(part) for part in parts]
        held = [
            [tensor for layer in self.layers for tensor in layer.held(part, length)]
            for part, length in zip(parts, lengths, strict=True)
        ]
        return [PartState(self._shell, tensors, length) for tensors, length in zip(held, lengths, strict=True)]

    def grew(self, parts: Sequence[slice], states: Sequence[PartState]) -> None:
        for part, state in zip(parts, states, strict=True):
            length = self._length(part)
            buffers = [buffer for layer in self.layers for buffer in layer.buffers]
            for buffer, tensor in zip(buffers, state.tensors, strict=True):
                buffer[part, :, length] = tensor[:, :, length]
            self.lengths[part] += 1

    def branch(self, parents: Tensor, most: int) -> None:
        longest, lengths = int(self.lengths.max()), self.lengths[parents.cpu().numpy()]
        # One transfer for all layers on a device.
        parents = parents.to(self.layers[0].device)
        for layer in self.layers:
            layer.branch(parents, longest, most)
        self.lengths = np.concatenate([self.lengths, lengths])

    def select(self, rows: Tensor) -> AttentionCache:
        lengths = self.lengths[rows.cpu().numpy()]
        rows = rows.to(self.layers[0].device)
        return AttentionCache(self._shell, [layer.select(rows, int(lengths.max())) for layer in self.layers], lengths)

    def _length(self, part: slice) -> int:
        return int(self.lengths[part.start])
