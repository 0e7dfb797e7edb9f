"""Source sentences that a translation model has read, and those of many rows as one batch, padded on the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from leakage_tasks.targets.causal.cache import RowState, bytes_of, of_rows

Sources = Sequence[tuple["SourceSentence", int]]
"""Source sentences, and how many rows of a batch look at each."""


@dataclass(eq=False)
class SourceSentence:
    """A source sentence's ``tokens``, and what is known of it once it has been read.

    ``read`` is what the encoder makes of it ``[1, S, d]``, in an ``output`` of its own kind; ``across`` the keys and
    values of cross-attention ``[1, H, S, D]``.
    """

    tokens: tuple[int, ...]
    read: Tensor | None = None
    output: Any = None
    across: RowState | None = None

    @property
    def length(self) -> int:
        """Its tokens."""
        return len(self.tokens)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes in a row of a pass."""
        held = [] if self.across is None else self.across.tensors
        return bytes_of(held)

    def forget(self) -> None:
        """Know no more than the tokens."""
        self.read = self.across = None


def encoder_outputs(sources: Sources) -> Any:
    """What the encoder made of each row's source, ``[n, S, d]``, of its own output's kind."""
    kind = sources[0][0].output
    return kind(last_hidden_state=_of_rows([(source.read, count) for source, count in sources], -2))


def mask_of(sources: Sources, device: torch.device) -> Tensor | None:
    """1 where a row's source is no padding, ``[n, S]``; None where none is."""
    lengths = [source.length for source, _ in sources]
    if len(set(lengths)) == 1:
        return None
    counts = torch.tensor([count for _, count in sources], device=device)
    each = torch.tensor(lengths, device=device).repeat_interleave(counts)
    return (torch.arange(max(lengths), device=device) < each[:, None]).long()


def keys_and_values(cache: Any, sources: Sources) -> Any:
    """The cache of self-attention with that of cross-attention."""
    from transformers import EncoderDecoderCache

    states = [source.across for source, _ in sources if source.across is not None]
    counts = [count for _, count in sources]
    columns = zip(*(state.tensors for state in states), strict=True)
    shared = [_of_rows(list(zip(column, counts, strict=True)), -2) for column in columns]
    return EncoderDecoderCache(cache, states[0].filled(shared))


def spread(sources: Sources, cache: Any) -> None:
    """Note of each source that has none yet what is its own of a cache of cross-attention."""
    whole, first = of_rows(cache), 0
    for source, count in sources:
        if source.across is None:
            own = [tensor[first : first + 1, :, : source.length].clone() for tensor in whole.tensors]
            source.across = replace(whole, tensors=own)
        first += count


def _of_rows(parts: Sequence[tuple[Any, int]], dim: int) -> Tensor:
    """Tensors ``[1, …, S, D]`` for so many rows each, shorter ones padded; nothing is copied where all are one."""
    first, rows = parts[0][0], sum(count for _, count in parts)
    if all(each is first for each, _ in parts):
        return first.expand(rows, *first.shape[1:])
    longest = max(each.shape[dim] for each, _ in parts)
    return torch.cat(
        [
            pad(each, (0, 0, 0, longest - each.shape[dim])).expand(n, *each.shape[1:dim], longest, -1)
            for each, n in parts
        ]
    )
