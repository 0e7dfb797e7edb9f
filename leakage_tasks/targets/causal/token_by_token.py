"""The rest of texts that begin alike, read a token at a time: for models that cannot read several tokens after a state.

Recurrent states, attention with ALiBi and latent attention go on by a token of each text. Texts that are alike up to
there are one row.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray

PASS_ON_CPU, PASS_ELSEWHERE = 256, 4096
"""Tokens that a pass of single tokens must save, at the least, by the device's kind."""


def worth_steps(engine: Any, saved: int, longest: int) -> bool:
    """Whether ``saved`` tokens are worth as many passes as the longest text has tokens after what all share."""
    return saved >= longest * (PASS_ON_CPU if engine.device.type == "cpu" else PASS_ELSEWHERE)


def costs_by_steps(engine: Any, state: Any, logits: Tensor, own: Sequence[list[int]]) -> FloatArray:
    """Costs in bits ``[n]`` of what texts have of their ``own`` after what they share.

    ``state`` is the model's after that, ``logits`` ``[1, V]`` what it says of the next token.
    """
    # How many rows a pass has goes by this state; what the target knows of others stays as it is.
    view = copy.copy(engine)
    view.weigh(state, logits.shape[-1])
    order = sorted(range(len(own)), key=own.__getitem__)
    following = np.unique([row[0] for row in own])
    begun = engine.costs(logits, following)[0]
    costs = np.zeros(len(own))

    def read(rows: slice) -> None:
        places = np.array(order[rows])
        some = [own[place] for place in places]
        costs[places] = begun[np.searchsorted(following, [row[0] for row in some])] + _stepped(view, state, some)

    engine.limit.parts(len(own), read, view.pass_rows([state]))
    return costs


def _stepped(view: Any, state: Any, own: Sequence[list[int]]) -> FloatArray:
    """Costs ``[n]`` of all of texts' tokens but the first."""
    from leakage_tasks.targets.causal.questions import Step

    costs, lengths = np.zeros(len(own)), np.array(list(map(len, own)))
    rows = np.zeros(len(own), dtype=np.int64)
    for depth in range(int(lengths.max()) - 1):
        going = np.flatnonzero(lengths > depth + 1)
        tokens, following = (_column(own, going, place) for place in (depth, depth + 1))
        pairs, which = np.unique(np.stack([rows[going], tokens]), axis=1, return_inverse=True)
        columns, place = np.unique(following, return_inverse=True)
        zeros = np.zeros(pairs.shape[1], dtype=np.int64)
        step = Step(view, [state], zeros, pairs[0], pairs[1], columns)
        ((state, found),) = view.one_pass([step])
        rows[going] = which
        costs[going] += found[which, place]
    return costs


def _column(own: Sequence[list[int]], going: IntArray, place: int) -> IntArray:
    return np.array([own[row][place] for row in going])
