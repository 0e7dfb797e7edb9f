"""KV caches of several states as one batch, padded on the left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import RowState, looked_at, tensors_of


class PaddedBatch:
    """Rows of states with shared prefixes; each row gets a copy of its prefix."""

    def __init__(self, states: Sequence[RowState]) -> None:
        self._states = states
        self._counts = [len(state.tensors[0]) for state in states]
        self._lengths = [state.length + state.tensors[0].shape[-2] for state in states]
        self._longest = max(self._lengths)

    def cache(self) -> Any:
        """Return the cache for a forward pass."""
        return self._states[0].filled([self._joined(index) for index in range(len(self._states[0].tensors))])

    def _joined(self, index: int) -> Tensor:
        """Return one padded tensor of the batch: the shared prefix, then the own tokens of each row."""
        like = self._states[0].tensors[index]
        joined = like.new_zeros(sum(self._counts), *like.shape[1:-2], self._longest, like.shape[-1])
        first = 0
        for state, count, length in zip(self._states, self._counts, self._lengths, strict=True):
            assert state.prefix is not None
            start, own_start = self._longest - length, self._longest - length + state.length
            if state.lead is not None:
                joined[first : first + count, ..., start : start + state.lead.length, :] = state.lead.tensors[index]
                start += state.lead.length
            joined[first : first + count, ..., start:own_start, :] = state.prefix[index]
            joined[first : first + count, ..., own_start:, :] = state.tensors[index]
            first += count
        return joined

    def told(self, device: torch.device) -> dict[str, Any]:
        """Return more arguments of the forward pass: attention mask ``[n, k + 1]``, positions ``[n, 1]`` and sources.

        Mask and positions are left out if nothing is padded.
        """
        arguments = looked_at([state.source for state in self._states], self._counts)
        if len(set(self._lengths)) == 1:
            return arguments
        lengths = torch.tensor(self._lengths, device=device).repeat_interleave(
            torch.tensor(self._counts, device=device)
        )[:, None]
        indices = torch.arange(self._longest + 1, device=device)[None]
        return {"attention_mask": (indices >= self._longest - lengths).long(), "position_ids": lengths, **arguments}

    def parts(self, rows: Tensor) -> list[Tensor]:
        """Split a tensor of the batch's rows by state."""
        return list(rows.split(self._counts))

    def split(self, cache: Any) -> list[RowState]:
        """Return the states after the pass."""
        columns = [tensor.split(self._counts) for tensor in tensors_of(cache)]
        grown = []
        for index, (state, length) in enumerate(zip(self._states, self._lengths, strict=True)):
            skip = self._longest - length + state.length
            tensors = [column[index][..., skip:, :].clone() for column in columns]
            grown.append(replace(state, tensors=tensors, read=state.read + 1))
        return grown
