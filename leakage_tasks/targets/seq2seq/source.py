"""Source sentences read by a translation model, and their batches, padded on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from leakage_tasks.targets.causal.cache import RowState, bytes_of, of_rows

Sources = Sequence[tuple["SourceSentence", int]]
"""Source sentences, each with its number of rows in a batch."""


@dataclass(eq=False)
class SourceSentence:
    """A source sentence's ``tokens``, and the model's results for it once it has been read.

    ``read`` is the encoder's output ``[1, S, d]``, of type ``output``; ``across`` holds the keys and values of
    cross-attention ``[1, H, S, D]``.
    """

    tokens: tuple[int, ...]
    read: Tensor | None = None
    output: Any = None
    across: RowState | None = None

    @property
    def length(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Memory in bytes that the source takes in each row of a pass."""
        held = [] if self.across is None else self.across.tensors
        return bytes_of(held)

    def forget(self) -> None:
        """Discard the model's results."""
        self.read = self.across = None


def encoder_outputs(sources: Sources) -> Any:
    """Return the encoder's output for each row's source, ``[n, S, d]``, in the model's output type."""
    kind = sources[0][0].output
    return kind(last_hidden_state=_of_rows([(source.read, count) for source, count in sources], -2))


def mask_of(sources: Sources, device: torch.device) -> Tensor | None:
    """Return a mask ``[n, S]`` that is 0 for padding; None if nothing is padded."""
    lengths = [source.length for source, _ in sources]
    if len(set(lengths)) == 1:
        return None
    counts = torch.tensor([count for _, count in sources], device=device)
    row_lengths = torch.tensor(lengths, device=device).repeat_interleave(counts)
    return (torch.arange(max(lengths), device=device) < row_lengths[:, None]).long()


def keys_and_values(cache: Any, sources: Sources) -> Any:
    """Return the self-attention cache combined with the cross-attention cache."""
    from transformers import EncoderDecoderCache

    states = [source.across for source, _ in sources if source.across is not None]
    counts = [count for _, count in sources]
    columns = zip(*(state.tensors for state in states), strict=True)
    shared = [_of_rows(list(zip(column, counts, strict=True)), -2) for column in columns]
    return EncoderDecoderCache(cache, states[0].filled(shared))


def spread(sources: Sources, cache: Any) -> None:
    """Store each source's part of a cross-attention cache, unless it is already known."""
    whole, first = of_rows(cache), 0
    for source, count in sources:
        if source.across is None:
            tensors = [tensor[first : first + 1, :, : source.length].clone() for tensor in whole.tensors]
            source.across = replace(whole, tensors=tensors)
        first += count


def _of_rows(parts: Sequence[tuple[Any, int]], dim: int) -> Tensor:
    """Repeat and concatenate tensors ``[1, …, S, D]`` for their rows, padding shorter tensors."""
    first, rows = parts[0][0], sum(count for _, count in parts)
    if all(tensor is first for tensor, _ in parts):
        return first.expand(rows, *first.shape[1:])
    longest = max(tensor.shape[dim] for tensor, _ in parts)
    return torch.cat(
        [
            pad(tensor, (0, 0, 0, longest - tensor.shape[dim])).expand(n, *tensor.shape[1:dim], longest, -1)
            for tensor, n in parts
        ]
    )
