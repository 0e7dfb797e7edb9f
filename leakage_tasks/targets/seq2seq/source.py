"""Source sentences read by a translation model, as rows of a table that a pass selects from, padded on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.causal.cache import filled, hollow, tensors_of
from leakage_tasks.targets.devices import PerDevice, on_device

NOT_READ = -1


@dataclass(eq=False)
class SourceSentence:
    """A source sentence's ``tokens``; ``place`` is its row in the table of the model's results, if it was read."""

    tokens: tuple[int, ...]
    table: SourceTable | None = field(default=None, repr=False)
    place: int = NOT_READ

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Memory in bytes that the source takes in each row of a pass."""
        return 0 if self.table is None else self.table.row_bytes

    def __del__(self) -> None:
        if self.table is not None and self.place != NOT_READ:
            self.table.free.append(self.place)


class SourceTable:
    """The keys and values of cross-attention ``[room, H, longest, D]`` of each source.

    ``shell`` is the model's cross-attention cache without tensors, None before the first source.
    """

    def __init__(self) -> None:
        self.shell: Any = None
        self._tensors: list[Tensor] = []
        self.free: list[int] = []

    @property
    def row_bytes(self) -> int:
        """Memory of a row in bytes."""
        return sum(tensor[0].numel() * tensor.element_size() for tensor in self._tensors if len(tensor))

    def store(self, sources: Sequence[SourceSentence], cache: Any) -> None:
        """Store rows of a cache ``[n, H, S, D]``, one for each of n sources."""
        read = tensors_of(cache)
        if self.shell is None:
            self.shell = hollow(cache)
            self._tensors = [tensor.new_zeros(0, *tensor.shape[1:]) for tensor in read]
        self._make_room(len(sources), read[0].shape[2])
        places = [self.free.pop() for _ in sources]
        for source, place in zip(sources, places, strict=True):
            source.table, source.place = self, place
        rows = PerDevice(np.array(places))
        for tensor, states in zip(self._tensors, read, strict=True):
            states = pad(states, (0, 0, 0, tensor.shape[2] - states.shape[2]))
            tensor.index_copy_(0, rows.on(tensor.device), states)

    def cache(self, places: IntArray, longest: int) -> Any:
        """Return the cross-attention cache of the sources at ``places`` ``[n]``, of up to ``longest`` tokens."""
        rows = PerDevice(places)
        return filled(
            self.shell, [tensor[:, :, :longest].index_select(0, rows.on(tensor.device)) for tensor in self._tensors]
        )

    def _make_room(self, more: int, length: int) -> None:
        """Make room for more sources, and for tokens of a longer one."""
        room, _, longest, _ = self._tensors[0].shape
        added = max(more, room) if len(self.free) < more else 0
        wider = max(0, length - longest)
        if added or wider:
            self._tensors = [pad(tensor, (0, 0, 0, wider, 0, 0, 0, added)) for tensor in self._tensors]
            self.free += range(room, room + added)


def mask_of(sources: Sequence[SourceSentence], device: torch.device) -> Tensor | None:
    """Return a mask ``[n, S]`` that is 0 for padding, for the source of each row; None if nothing is padded."""
    lengths = np.fromiter((source.length for source in sources), dtype=np.int64)
    if (lengths == lengths[0]).all():
        return None
    return on_device((np.arange(lengths.max()) < lengths[:, None]).astype(np.int64), device)
