"""Coordinate search: improve one slot at a time until no single change lowers the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.arrays import FloatArray, IntArray

LEAST = 1e-9
"""A loss must decrease by at least this share. A smaller change may be a rounding error, and the search could cycle."""
Score = Callable[[IntArray, IntArray], FloatArray]
"""Maps canaries ``[n]`` and indices of values ``[n, S]`` to losses ``[n]``."""


@dataclass
class Searches:
    """n searches on K canaries, improved in place.

    ``canaries`` ``[n]`` is the canary of each search. ``places`` ``[n, S]`` (indices of values) and ``losses`` ``[n]``
    are its current filling. ``tried`` ``[n, S, M]`` are the values to try in each slot, padded with −1, and ``slots``
    ``[n]`` is the number of slots. At most ``budgets`` ``[K]`` rows are scored for each canary; ``calls`` ``[K]``
    counts them. ``settled`` ``[n]`` is true if no change of one slot to a value of ``tried`` lowers the loss, and false
    if the budget was spent before.
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
        """Improve the slots in turn until no slot changes, in all searches at once; losses never rise."""
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
        # A slot that has just taken its best value needs no further try.
        self._quiet[rows] = np.where(better, 1, self._quiet[rows] + 1)
        self.settled[rows] = self._quiet[rows] >= self.slots[rows]
        self._running[rows] = ~self.settled[rows]

    def _pay(self, rows: IntArray, wanted: IntArray) -> NDArray[np.bool_]:
        """Charge each canary's budget for all of its searches, if it pays for them; return a mask of the paid rows."""
        bill = np.bincount(self.canaries[rows], wanted, len(self.calls)).astype(np.int64)
        able = self.calls + bill <= self.budgets
        self.calls += np.where(able, bill, 0)
        return able[self.canaries[rows]]

    def _scored(
        self, score: Score, rows: IntArray, slots: IntArray, values: IntArray, new: NDArray[np.bool_]
    ) -> FloatArray:
        """Score each value in its slot; returns the shape of ``values``, infinite for values that are not ``new``."""
        losses = np.full(values.shape, np.inf)
        at, column = np.nonzero(new)
        if len(at):
            filled = self.places[rows[at]]
            filled[np.arange(len(at)), slots[at]] = values[at, column]
            losses[at, column] = score(self.canaries[rows[at]], filled)
        return losses
