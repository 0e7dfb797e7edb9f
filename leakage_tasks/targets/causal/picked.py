"""Rows selected from the cached states of a causal model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import RowState


class PickedRows(Sequence[Tensor]):
    """Tensors of selected rows, each assembled on access, since a pass needs only one layer at a time."""

    def __init__(self, states: Sequence[RowState], which: Tensor, rows: Tensor) -> None:
        used = which.unique().tolist()
        self._sources = [(states[n].tensors, rows if len(used) == 1 else rows[which == n]) for n in used]
        self._back = torch.argsort(torch.argsort(which, stable=True)) if len(used) > 1 else None

    def __len__(self) -> int:
        return len(self._sources[0][0])

    def __getitem__(self, index: int) -> Tensor:  # type: ignore[override]
        parts = [rows_of(tensors[index], rows) for tensors, rows in self._sources]
        return parts[0] if self._back is None else rows_of(torch.cat(parts), self._back)

    def __iter__(self) -> Iterator[Tensor]:
        return (self[index] for index in range(len(self)))


def pick(states: Sequence[RowState], which: Tensor, rows: Tensor) -> RowState:
    """Return the state whose row i is row ``rows[i]`` of ``states[which[i]]``."""
    picked = pick_to_read(states, which, rows)
    return replace(picked, tensors=[*picked.tensors])


def pick_to_read(states: Sequence[RowState], which: Tensor, rows: Tensor) -> RowState:
    """Return such a state for immediate use: it refers to ``states`` and assembles each tensor on access."""
    return replace(states[int(which[0])], tensors=PickedRows(states, which, rows))


def rows_of(tensor: Tensor, rows: Tensor) -> Tensor:
    """Return some rows of a tensor, on its device."""
    return tensor.index_select(0, rows.to(tensor.device))
