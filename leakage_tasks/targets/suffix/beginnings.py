"""Beginnings of draws in a beam, with their probabilities and their edit distances to a true suffix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

NEVER = -np.inf
"""Log-probability of an impossible event."""


@dataclass(frozen=True)
class Beginnings:
    """Beginnings of draws: number of the true suffix, parent row in the beam, and last token, ``[n]`` each.

    ``log_p`` ``[n]`` is the log-probability in nats under the scheme, ``rows`` ``[n, band]`` are edit distances, and
    ``true`` ``[n]`` is True for a beginning of the true suffix.
    """

    owner: IntArray
    parent: IntArray
    token: IntArray
    log_p: FloatArray
    rows: IntArray
    true: BoolArray

    @classmethod
    def join(cls, parts: Sequence[Beginnings]) -> Beginnings:
        """Concatenate ``parts``."""
        return cls(*map(np.concatenate, zip(*(vars(part).values() for part in parts), strict=True)))

    def take(self, which: IntArray | BoolArray) -> Beginnings:
        """Return the beginnings ``which``."""
        return Beginnings(*(values[which] for values in vars(self).values()))

    def grow(self, which: IntArray, tokens: IntArray, added: FloatArray, rows: IntArray, true: IntArray) -> Beginnings:
        """Return beginnings ``which`` with one more token, of log-probability ``added``, unless it is impossible.

        ``true`` ``[suffixes]`` are the true suffixes' tokens at this place.
        """
        possible = added > NEVER
        grown = self.take(which[possible])
        token = tokens[possible]
        return Beginnings(
            owner=grown.owner,
            parent=grown.parent,
            token=token,
            log_p=grown.log_p + added[possible],
            rows=rows[possible],
            true=grown.true & (token == true[grown.owner]),
        )

    def add_to(self, totals: FloatArray) -> None:
        """Add the probabilities to the totals of the true suffixes ``[suffixes]``, all as logarithms in nats."""
        np.logaddexp.at(totals, self.owner, self.log_p)
