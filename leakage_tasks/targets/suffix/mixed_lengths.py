"""One forward pass over rows of several lengths, whose states are padded on the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from leakage_tasks.targets.causal.cache import attention_only, tensors_of
from leakage_tasks.targets.causal.own_attention import takes_positions
from leakage_tasks.targets.suffix.growing_cache import PartState


def read_together(
    reader: Any, states: Sequence[PartState], tokens: Sequence[Tensor]
) -> tuple[list[Tensor], list[PartState]]:
    """Read a token ``[n, 1]`` after each row of each part; return logits ``[n, V]`` and the new state for each part."""
    counts = [len(token) for token in tokens]
    padded = attention_only(states[0].cache())
    longest = max(state.tensors[0].shape[2] for state in states) if padded else 0
    columns = zip(*(state.tensors for state in states), strict=True)
    if padded:
        whole = [
            torch.cat([pad(tensor, (0, 0, longest - tensor.shape[2], 0)) for tensor in column]) for column in columns
        ]
    else:
        whole = [torch.cat(column) for column in columns]
    lengths = np.repeat([state.tensors[0].shape[2] if padded else 0 for state in states], counts)
    arguments = _padding(reader, lengths, longest) if padded else {}
    logits, cache = reader.read_on(replace(states[0], tensors=whole).cache(), torch.cat(list(tokens)), **arguments)
    grown = [tensor.split(counts) for tensor in tensors_of(cache)]
    new = []
    for number, state in enumerate(states):
        skipped = longest - state.tensors[0].shape[2] if padded else 0
        tensors = [column[number][:, :, skipped:] if padded else column[number] for column in grown]
        new.append(replace(state, tensors=tensors, length=state.length + 1))
    return list(logits[:, -1].split(counts)), new


def _padding(reader: Any, lengths: Any, longest: int) -> dict[str, Tensor]:
    """Return the mask ``[n, longest + 1]`` and the positions ``[n, 1]`` of the pass."""
    mask = np.arange(longest + 1) >= longest - lengths[:, None]
    arguments = {"attention_mask": reader.on_device(mask.astype(np.int64))}
    if takes_positions(reader.stepper):
        arguments["position_ids"] = reader.on_device(lengths[:, None])
    return arguments
