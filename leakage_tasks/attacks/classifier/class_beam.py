"""Beam search over fillings by the loss of a class: slot after slot, a fixed number of fillings kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.classifier.class_scores import ClassScores, guesses_of, within
from leakage_tasks.attacks.finding import GUESSES, AttackResult, grade_guesses
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.bits import LN2

LEAST = 10
"""The fewest values worth trying after each filling."""

Grow = Callable[[IntArray, FloatArray, int], tuple[IntArray, FloatArray]]
"""Heads ``[n, k]``, their penalties ``[n]``, the slot → heads with a value more, and theirs."""
Goal = Callable[[FloatArray, FloatArray], FloatArray]
"""Losses and penalties → what is minimised."""


@dataclass(frozen=True)
class Beam:
    """Fillings ``[k, slots]`` best first, their losses ``[k]``; how many are ranked, the secret's place among them."""

    values: IntArray
    losses: FloatArray
    ranked: int
    place: int | None

    def result(self, space: Space, secret: Filling) -> AttackResult:
        """The fields of a finding that tell of guesses."""
        guesses = guesses_of(space, self.values[:GUESSES], self.losses[:GUESSES])
        return {**grade_guesses(guesses, secret), "place": self.place}


def beam_search(scores: ClassScores, secret: Filling, width: int, grow: Grow, goal: Goal) -> Beam:
    """Keep the ``width`` best of all that ``grow`` gives after each slot.

    With one slot all it gives are ranked, ties before the secret; with more, the ``width`` fillings kept in the end.
    """
    slots = len(scores.space.slots)
    heads, kept, losses = np.zeros((1, 0), dtype=np.int64), np.zeros(1), np.zeros(1)
    place, ranked = None, 0
    for slot in range(slots):
        grown, penalties = grow(heads, kept, slot)
        found = scores.of(grown)
        goals = goal(found, penalties)
        order = np.argsort(goals, kind="stable")
        if slot == slots - 1:
            ranked = len(grown) if slots == 1 else min(width, len(grown))
            at = np.flatnonzero((grown == scores.places([secret])).all(axis=1))
            place = _place(goals, found, at, scores.signal, penalised=goal is not plain)
        best = order[:width]
        heads, losses, kept = grown[best], found[best], penalties[best]
    return Beam(heads, losses, ranked, place if place is not None and place <= ranked else None)


def plain(losses: FloatArray, penalties: FloatArray) -> FloatArray:
    """The goal without a penalty."""
    return losses


def _place(goals: FloatArray, losses: FloatArray, at: IntArray, signal: str, penalised: bool) -> int | None:
    """How many goals are no higher than the one at ``at``, ties counted before it; None if it is not there."""
    if not len(at):
        return None
    own, loss = float(goals[at[0]]), float(losses[at[0]])
    # A penalised goal moves by P·ln 2 with each bit of the loss.
    bound = own + float(np.exp2(-loss)) * LN2 * (within(loss) - loss) if penalised else within(own, signal)
    return int((goals <= bound).sum())


def room(space: Space, slot: int, width: int, budget: int) -> tuple[int, int]:
    """How many fillings go on into ``slot``, and how many values each may try there within the budget."""
    before = beginnings(space, slot, width)
    return before, budget // (before * max(len(space.slots) - 1, 1))


def beginnings(space: Space, slot: int, width: int) -> int:
    """How many fillings of the slots before ``slot`` are kept."""
    before = 1
    for each in space.slots[:slot]:
        before = min(before * len(each), width)
    return before
