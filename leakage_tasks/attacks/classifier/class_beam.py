"""Beam search over fillings by the loss of a class; it keeps a fixed number of fillings after each slot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.classifier.class_scores import ClassScores, guesses_of, within
from leakage_tasks.attacks.finding import GUESSES, AttackResult, grade_guesses
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.bits import LN2
from leakage_tasks.targets.tokens.slot_tokens import values_at

LEAST = 10
"""Minimum number of values to try after each filling."""

Grow = Callable[[IntArray, FloatArray, int], tuple[IntArray, FloatArray]]
"""Extends fillings of the first k slots: maps these heads ``[n, k]``, their penalties ``[n]`` and the slot to heads
with one more value, and their penalties."""
Goal = Callable[[FloatArray, FloatArray], FloatArray]
"""Maps losses and penalties to the goal that is minimised."""


@dataclass(frozen=True)
class Beam:
    """Fillings ``[k, slots]``, best first, with their losses ``[k]``.

    ``ranked`` is the number of ranked fillings, and ``place`` the secret's place among them.
    """

    values: IntArray
    losses: FloatArray
    ranked: int
    place: int | None

    def result(self, space: Space, secret: Filling) -> AttackResult:
        """Return the fields of a finding about guesses."""
        guesses = guesses_of(space, self.values[:GUESSES], self.losses[:GUESSES])
        return {**grade_guesses(guesses, secret, space.fill(secret)), "place": self.place}


def beam_search(scores: ClassScores, secret: Filling, width: int, grow: Grow, goal: Goal) -> Beam:
    """Keep the ``width`` best fillings of those from ``grow`` after each slot.

    Args:
        scores: Losses of the canary's class.
        secret: The secret.
        width: Number of fillings to keep.
        grow: Extends the fillings by one slot.
        goal: The quantity to minimise.

    Returns:
        The best fillings. With one slot all fillings from ``grow`` are ranked, ties before the secret; with more
        slots, the ``width`` fillings of the last step.

    """
    slots = len(scores.space.slots)
    heads, head_penalties, losses = np.zeros((1, 0), dtype=np.int64), np.zeros(1), np.zeros(1)
    secret_place, ranked = None, 0
    for slot in range(slots):
        grown, penalties = grow(heads, head_penalties, slot)
        grown_losses = scores.of(grown)
        goals = goal(grown_losses, penalties)
        order = np.argsort(goals, kind="stable")
        if slot == slots - 1:
            ranked = len(grown) if slots == 1 else min(width, len(grown))
            at = _with_text_of(scores, grown, order[:ranked], secret)
            secret_place = _place(goals, grown_losses, at, scores.signal, penalised=goal is not loss_only)
        best = order[:width]
        heads, losses, head_penalties = grown[best], grown_losses[best], penalties[best]
    return Beam(heads, losses, ranked, secret_place if secret_place is not None and secret_place <= ranked else None)


def loss_only(losses: FloatArray, penalties: FloatArray) -> FloatArray:
    """Return the losses, without a penalty, as the goal to minimise."""
    return losses


def _with_text_of(scores: ClassScores, grown: IntArray, order: IntArray, secret: Filling) -> IntArray:
    """Return the rows of ``grown`` among ``order`` that have the secret's text, in this order.

    Several fillings may have one text, if values of several lengths follow each other without text between them.
    """
    if scores.space.spans is None and len(scores.space.slots) > 1:
        text = scores.space.fill(secret)
        texts = (scores.space.begin(filling) for filling in values_at(scores.space, grown[order]))
        return order[np.fromiter((filled == text for filled in texts), np.bool_)]
    return order[(grown[order] == scores.places([secret])).all(axis=1)]


def _place(goals: FloatArray, losses: FloatArray, at: IntArray, signal: str, penalised: bool) -> int | None:
    """Return the number of goals that are at most the first goal at ``at``, ties included; None if ``at`` is empty.

    ``at`` are the fillings with the secret's text, which are no guesses before it.
    """
    if not len(at):
        return None
    secret_goal, loss = float(goals[at[0]]), float(losses[at[0]])
    # The derivative of a penalised goal by the loss in bits is P·ln 2.
    bound = (
        secret_goal + float(np.exp2(-loss)) * LN2 * (within(loss) - loss) if penalised else within(secret_goal, signal)
    )
    return int((goals <= bound).sum()) - int((goals[at[1:]] <= bound).sum())


def size_of_step(space: Space, slot: int, width: int, budget: int) -> tuple[int, int]:
    """Return the number of fillings that enter ``slot``, and of values that each may try there within the budget.

    Args:
        space: The canary's space.
        slot: Index of the slot.
        width: Number of fillings that the search keeps.
        budget: Number of rows for all slots but the first.

    Returns:
        Number of fillings, and number of values per filling.
    """
    before = kept_fillings(space, slot, width)
    return before, budget // (before * max(len(space.slots) - 1, 1))


def kept_fillings(space: Space, slot: int, width: int) -> int:
    """Return the number of fillings of the slots before ``slot`` that the search keeps."""
    before = 1
    for alphabet in space.slots[:slot]:
        before = min(before * len(alphabet), width)
    return before
