"""Token rows as batches: how many at once, and padded to one length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

TOKENS = {"cpu": 1 << 11}
"""Token positions a batch may hold by default, by kind of device."""
TOKENS_ELSEWHERE = 1 << 17


def rows_at_once(device: torch.device, length: int, batch_size: int | None, max_length: int | None, most: int) -> int:
    """How many rows of ``length`` tokens one forward pass takes, ``most`` at the most.

    ``batch_size`` counts rows of full length (``max_length``); None leaves the number to the kind of device.
    """
    tokens = TOKENS.get(device.type, TOKENS_ELSEWHERE)
    if batch_size is not None:
        tokens = batch_size * (max_length or length)
    return max(1, min(tokens // max(length, 1), most))


def padded(rows: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask of rows of any lengths, both ``[rows, longest]``, padded on the right."""
    ids = torch.full((len(rows), max(map(len, rows))), padding, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row, dtype=torch.long)
        mask[place, : len(row)] = 1
    return ids, mask
