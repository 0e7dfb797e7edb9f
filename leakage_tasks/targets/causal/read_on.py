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


def costs_at_once(engine: Any, begun: Beginning, rests: Sequence[list[int]]) -> FloatArray:
    """Compute costs in bits ``[n]`` of ``rests``, the tokens of each text after the common prefix ``begun``."""
    first, inverse = np.unique([row[0] for row in rests], return_inverse=True)
    next_one = engine.costs(begun.logits, first)[0, inverse]

    def read(batch: Sequence[list[int]]) -> FloatArray:
        tokens, mask = (part.to(engine.device) for part in padded(batch, 0))
        if tokens.shape[1] == 1:
            return np.zeros(len(batch))
        with engine.inference():
            logits, _ = _read_on(engine, begun.state, tokens[:, :-1])
            return row_bits(logits, tokens[:, 1:], mask[:, 1:])

    def fit(length: int) -> int:
        return int(engine.text_rows(len(begun.tokens) + length, length))

    rest = engine.whole_texts.by_length(list(map(len, rests)), fit, read, rests, most_padding=engine.most_padding)
    return np.asarray(next_one + rest)


def read_after(engine: Any, lead: Beginning, rows: Sequence[Sequence[int]]) -> First:
    """Return the result of :meth:`CausalReader.read_first` for ``rows``, which begin with the tokens of ``lead``."""
    rests = [list(row[len(lead.tokens) :]) for row in rows]
    tokens = padded(rests, 0)[0].to(engine.device)
    with engine.inference():
        logits, grown = _read_on(engine, lead.state, tokens)
        after = torch.cat([lead.logits[None].expand(len(rows), -1, -1), logits[:, :-1]], dim=1)
        costs = after.log_softmax(-1).gather(-1, tokens[..., None])[..., 0].cpu().double() / -LN2
        last = logits[torch.arange(len(rows)), torch.tensor(list(map(len, rests))) - 1]
        states = [_one(grown, index, len(rests[index]), len(row)) for index, row in enumerate(rows)]
    return states, [torch.cat([lead.costs, row[: len(rest)]]) for row, rest in zip(costs, rests, strict=True)], last


def _read_on(engine: Any, state: RowState, tokens: Tensor) -> tuple[Tensor, RowState]:
    """Read ``tokens`` ``[n, k]`` after the single text of ``state``: logits ``[n, k, V]`` and the state of n texts."""
    copies = torch.zeros(len(tokens), dtype=torch.long)
    (logits,), (grown,) = engine.passes.read_shared([pick([state], copies, copies)], [tokens])
    return logits, grown


def _one(state: RowState, row: int, own_length: int, read: int) -> RowState:
    """Return the state of one row with ``read`` tokens; its last ``own_length`` tokens become part of its prefix."""
    prefix = [tensor[row : row + 1, ..., :own_length, :].clone() for tensor in state.tensors]
    nothing = [tensor[..., own_length:, :] for tensor in prefix]
    return replace(state, tensors=nothing, prefix=prefix, length=state.length + own_length, read=read)
