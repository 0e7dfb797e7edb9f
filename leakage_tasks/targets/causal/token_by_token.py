"""The rest of texts that begin alike, read a token at a time: for models that cannot read several tokens after a state.

Recurrent states, attention with ALiBi and latent attention go on by a token of each text. Of the texts that are read
together those that are alike up to there are one row.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.causal.asked import Step
from leakage_tasks.targets.causal.passes import CHECKED

PASS_ON_CPU, PASS_ELSEWHERE = 256, 4096
"""Tokens that a pass of single tokens must save, at the least, by the device's kind."""


def fewest_worth(engine: Any, shared: int, longest: int) -> int:
    """The fewest texts for which reading ``shared`` tokens once is worth ``longest`` passes of a token of each.

    ``longest`` is the most tokens that a text has after those.
    """
    return 1 + math.ceil(longest * worth_of_a_pass(engine) / shared)


def worth_of_a_pass(engine: Any) -> int:
    """How many tokens a pass more must save, at the least."""
    return PASS_ON_CPU if engine.device.type == "cpu" else PASS_ELSEWHERE


def costs_by_steps(engine: Any, state: Any, logits: Tensor, own: Sequence[list[int]]) -> FloatArray:
    """Costs in bits ``[n]`` of what texts have of their ``own`` after what they share.

    ``state`` is the model's after that, ``logits`` ``[1, V]`` what it says of the next token.
    """
    # How many rows a pass has goes by this state; what the target knows of others stays as it is.
    view = copy.copy(engine)
    view.weigh(state, logits.shape[-1])
    following = np.unique([row[0] for row in own])
    begun = engine.costs(logits, following)[0]
    costs = np.zeros(len(own))

    def read(places: Sequence[int]) -> None:
        some = [own[place] for place in places]
        first = begun[np.searchsorted(following, [row[0] for row in some])]
        costs[list(places)] = first + _stepped(view, state, some)

    order = sorted(range(len(own)), key=own.__getitem__)
    if engine.passes.steps_on.works is None:
        # Which way the model takes steps, and what a row then takes, shows with the first ones.
        longest = sorted(order, key=lambda place: len(own[place]))[-CHECKED:]
        read(longest)
        order = [place for place in order if place not in longest]

    def part(rows: slice) -> None:
        read(order[rows])

    engine.limit.parts(len(order), part, view.pass_rows([state]))
    return costs


def _stepped(view: Any, state: Any, own: Sequence[list[int]]) -> FloatArray:
    """Costs ``[n]`` of all of texts' tokens but the first."""
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
