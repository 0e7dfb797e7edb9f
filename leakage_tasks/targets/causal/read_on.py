"""The rest of texts with a common prefix, read in one forward pass without a copy of the prefix for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.batches import padded, row_bits
from leakage_tasks.targets.causal.cache import Beginning, First, RowState
from leakage_tasks.targets.causal.picked import pick


def costs_at_once(engine: Any, begun: Beginning, own: Sequence[list[int]]) -> FloatArray:
    """Compute costs in bits ``[n]`` of the tokens ``own`` of each text after the common prefix ``begun``."""
    first, place = np.unique([row[0] for row in own], return_inverse=True)
    next_one = engine.costs(begun.logits, first)[0, place]

    def read(some: Sequence[list[int]]) -> FloatArray:
        tokens, mask = (part.to(engine.device) for part in padded(some, 0))
        if tokens.shape[1] == 1:
            return np.zeros(len(some))
        with engine.inference():
            said, _ = _read_on(engine, begun.state, tokens[:, :-1])
            return row_bits(said, tokens[:, 1:], mask[:, 1:])

    def fit(length: int) -> int:
        return int(engine.text_rows(len(begun.tokens) + length, length))

    rest = engine.whole_texts.by_length(list(map(len, own)), fit, read, own, most_padding=engine.most_padding)
    return np.asarray(next_one + rest)


def read_after(engine: Any, lead: Beginning, rows: Sequence[Sequence[int]]) -> First:
    """Return the result of :meth:`CausalReader.read_first` for ``rows``, which begin with the tokens of ``lead``."""
    own = [list(row[len(lead.tokens) :]) for row in rows]
    tokens = padded(own, 0)[0].to(engine.device)
    with engine.inference():
        said, grown = _read_on(engine, lead.state, tokens)
        after = torch.cat([lead.logits[None].expand(len(rows), -1, -1), said[:, :-1]], dim=1)
        costs = after.log_softmax(-1).gather(-1, tokens[..., None])[..., 0].cpu().double() / -LN2
        last = said[torch.arange(len(rows)), torch.tensor(list(map(len, own))) - 1]
        states = [_one(grown, index, len(own[index]), len(row)) for index, row in enumerate(rows)]
    return states, [torch.cat([lead.costs, row[: len(each)]]) for row, each in zip(costs, own, strict=True)], last


def _read_on(engine: Any, state: RowState, tokens: Tensor) -> tuple[Tensor, RowState]:
    """Read ``tokens`` ``[n, k]`` after the single text of ``state``: logits ``[n, k, V]`` and the state of n texts."""
    copies = torch.zeros(len(tokens), dtype=torch.long)
    (said,), (grown,) = engine.passes.read_shared([pick([state], copies, copies)], [tokens])
    return said, grown


def _one(state: RowState, row: int, own: int, read: int) -> RowState:
    """Return the state of one row with ``read`` tokens; its last ``own`` tokens become part of its prefix."""
    prefix = [tensor[row : row + 1, ..., :own, :].clone() for tensor in state.tensors]
    nothing = [tensor[..., own:, :] for tensor in prefix]
    return replace(state, tensors=nothing, prefix=prefix, length=state.length + own, read=read)
