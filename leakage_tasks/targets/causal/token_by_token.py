"""The rest of texts with a common prefix, read token by token, for models that cannot read several at once.

Models with recurrent states, ALiBi or latent attention read one token of each text per pass. Texts read together are
one row of the batch as long as their tokens are equal.
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
"""Minimum number of tokens that one more pass of single tokens must save, on a CPU and on other devices."""


def fewest_worth(engine: Any, shared: int, longest: int) -> int:
    """Return the minimum number of texts for which reading ``shared`` tokens once pays for ``longest`` passes.

    Each pass reads one token of each text; ``longest`` is the largest number of tokens after the shared prefix.
    """
    return 1 + math.ceil(longest * worth_of_a_pass(engine) / shared)


def worth_of_a_pass(engine: Any) -> int:
    """Return the minimum number of tokens that one more pass must save."""
    return PASS_ON_CPU if engine.device.type == "cpu" else PASS_ELSEWHERE


def costs_by_steps(engine: Any, state: Any, logits: Tensor, own: Sequence[list[int]]) -> FloatArray:
    """Compute costs in bits ``[n]`` of the tokens ``own`` of each text after the shared prefix.

    ``state`` is the model's state after the prefix, ``logits`` ``[1, V]`` its prediction of the next token.
    """
    # The batch size depends on this state; the copy keeps the target's own sizes unchanged.
    view = copy.copy(engine)
    view.weigh(state, logits.shape[-1])
    following = np.unique([row[0] for row in own])
    begun = engine.costs(logits, following)[0]
    costs = np.zeros(len(own))

    def read(indices: Sequence[int]) -> None:
        batch = [own[index] for index in indices]
        first = begun[np.searchsorted(following, [row[0] for row in batch])]
        costs[list(indices)] = first + _stepped(view, state, batch)

    order = sorted(range(len(own)), key=own.__getitem__)
    if engine.passes.steps_on.works is None:
        # The first steps show which batching strategy works and how much memory a row takes.
        longest = sorted(order, key=lambda index: len(own[index]))[-CHECKED:]
        read(longest)
        order = [index for index in order if index not in longest]

    def part(rows: slice) -> None:
        read(order[rows])

    engine.limit.parts(len(order), part, view.pass_rows([state]))
    return costs


def _stepped(view: Any, state: Any, own: Sequence[list[int]]) -> FloatArray:
    """Compute costs ``[n]`` of all own tokens except the first."""
    costs, lengths = np.zeros(len(own)), np.array(list(map(len, own)))
    rows = np.zeros(len(own), dtype=np.int64)
    for depth in range(int(lengths.max()) - 1):
        going = np.flatnonzero(lengths > depth + 1)
        tokens, following = (_column(own, going, index) for index in (depth, depth + 1))
        pairs, which = np.unique(np.stack([rows[going], tokens]), axis=1, return_inverse=True)
        columns, index = np.unique(following, return_inverse=True)
        zeros = np.zeros(pairs.shape[1], dtype=np.int64)
        step = Step(view, [state], zeros, pairs[0], pairs[1], columns)
        ((state, step_costs),) = view.one_pass([step])
        rows[going] = which
        costs[going] += step_costs[which, index]
    return costs


def _column(own: Sequence[list[int]], going: IntArray, index: int) -> IntArray:
    return np.array([own[row][index] for row in going])
