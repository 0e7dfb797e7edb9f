"""Beginnings of draws in a beam, with their probabilities and their edit distances to a true suffix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import ArrayRecord, BoolArray, FloatArray, IntArray

NEVER = -np.inf
"""Log-probability of an impossible event."""


@dataclass(frozen=True)
class Beginnings(ArrayRecord):
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

    def grow(self, which: IntArray, tokens: IntArray, added: FloatArray, rows: IntArray, true: IntArray) -> Beginnings:
        """Return beginnings ``which`` with one more token, of log-probability ``added``, unless it is impossible.

        ``true`` ``[suffixes]`` are the true suffixes' tokens at this place.
        """
        possible = added > NEVER
        grown = self[which[possible]]
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
