"""Coordinate search: one slot at a time takes its best value, until no single change helps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.arrays import FloatArray, IntArray

LEAST = 1e-9
"""A loss must fall by this share of itself: less is rounding, over which a search could go round in circles."""
Score = Callable[[IntArray, IntArray], FloatArray]
"""Canaries ``[n]`` and places of values ``[n, S]`` → losses ``[n]``."""


@dataclass
class Searches:
    """n searches on K canaries, improved in place.

    ``canaries`` ``[n]`` says whose each is, ``places`` ``[n, S]`` and ``losses`` ``[n]`` where it stands, ``tried``
    ``[n, S, M]`` the values to try in each slot (−1 for none), ``slots`` ``[n]`` how many it has. No more than
    ``budgets`` ``[K]`` rows are scored for each canary; ``calls`` ``[K]`` counts them. ``settled`` ``[n]`` tells those
    that no single change of a slot to a value of ``tried`` would improve; the others ran out of budget.
    """

    canaries: IntArray
    places: IntArray
    losses: FloatArray
    tried: IntArray
    slots: IntArray
    budgets: IntArray

    def __post_init__(self) -> None:
        self.calls = np.zeros(len(self.budgets), dtype=np.int64)
        self.settled = np.zeros(len(self.places), dtype=np.bool_)
        self._running = np.ones(len(self.places), dtype=np.bool_)
        self._quiet = np.zeros(len(self.places), dtype=np.int64)

    def descend(self, score: Score) -> None:
        """Go through the slots in turn until none changes, all searches side by side; no loss ever rises."""
        turn = 0
        while self._running.any():
            rows = np.flatnonzero(self._running)
            self._improve(score, rows, turn % self.slots[rows])
            turn += 1

    def _improve(self, score: Score, rows: IntArray, slots: IntArray) -> None:
        """Try every value in one slot of each of ``rows``."""
        values = self.tried[rows, slots]
        new = (values >= 0) & (values != self.places[rows, slots][:, None])
        paid = self._pay(rows, new.sum(axis=1))
        self._running[rows[~paid]] = False
        rows, slots, values, new = rows[paid], slots[paid], values[paid], new[paid]
        losses = self._scored(score, rows, slots, values, new)
        best = losses.argmin(axis=1)
        lowest = losses[np.arange(len(rows)), best]
        better = lowest < self.losses[rows] - LEAST * np.abs(self.losses[rows])
        changed = rows[better]
        self.places[changed, slots[better]] = values[better, best[better]]
        self.losses[changed] = lowest[better]
        # A slot that has just taken its best value cannot be improved either.
        self._quiet[rows] = np.where(better, 1, self._quiet[rows] + 1)
        self.settled[rows] = self._quiet[rows] >= self.slots[rows]
        self._running[rows] = ~self.settled[rows]

    def _pay(self, rows: IntArray, wanted: IntArray) -> NDArray[np.bool_]:
        """Whether the budget of each row's canary pays for all of its searches; then it is charged."""
        bill = np.bincount(self.canaries[rows], wanted, len(self.calls)).astype(np.int64)
        able = self.calls + bill <= self.budgets
        self.calls += np.where(able, bill, 0)
        return able[self.canaries[rows]]

    def _scored(
        self, score: Score, rows: IntArray, slots: IntArray, values: IntArray, new: NDArray[np.bool_]
    ) -> FloatArray:
        """Losses with each value in its slot, infinite for those that are not ``new``; shaped as ``values``."""
        found = np.full(values.shape, np.inf)
        at, column = np.nonzero(new)
        if len(at):
            filled = self.places[rows[at]]
            filled[np.arange(len(at)), slots[at]] = values[at, column]
            found[at, column] = score(self.canaries[rows[at]], filled)
        return found
