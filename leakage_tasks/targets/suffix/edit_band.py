"""Rows of Levenshtein's table between drawn tokens and a true suffix, limited to a band of small distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import BoolArray, IntArray


@dataclass(frozen=True)
class EditBand:
    """Edit distances up to ``most`` between drawn tokens and a true suffix, if both will have ``length`` tokens.

    After ``drawn`` tokens, a row holds the distances of these tokens to the first j tokens of the true suffix, for
    j from ``drawn`` − ``most`` to ``drawn`` + ``most``: ``[2 · most + 1]``. A larger distance, or one to an impossible
    number of tokens, is ``most`` + 1. An edit inserts, deletes or replaces a token (Levenshtein 1966).
    """

    length: int
    most: int

    @property
    def width(self) -> int:
        """Number of distances in a row."""
        return 2 * self.most + 1

    def positions(self, drawn: int) -> IntArray:
        """Return the numbers j of a row, ``[width]``."""
        return np.arange(drawn - self.most, drawn + self.most + 1)

    def first(self) -> IntArray:
        """Return the row before the first drawn token."""
        positions = self.positions(0)
        return np.where((positions >= 0) & (positions <= self.length), positions, self.most + 1)

    def window(self, truth: IntArray, drawn: int) -> tuple[IntArray, BoolArray]:
        """Return the tokens of ``truth`` ``[…, length]`` that drawn token number ``drawn``, from 1, may match.

        They are tokens number j of a row, ``[…, width]``, and True for the numbers at which there is a token,
        ``[width]``; other numbers repeat another token.
        """
        positions = self.positions(drawn)
        there = (positions >= 1) & (positions <= self.length)
        return truth[..., np.where(there, positions, drawn) - 1], there

    def follow(self, rows: IntArray, equal: BoolArray, drawn: int) -> IntArray:
        """Return the rows after token number ``drawn``, counted from 1.

        Args:
            rows: Rows before this token, ``[…, width]``.
            equal: True where the token equals token number j of the true suffix, ``[…, width]``.
            drawn: The number of drawn tokens, including this token.
        """
        positions, beyond = self.positions(drawn), self.most + 1
        inserted = np.concatenate([rows[..., 1:], np.full_like(rows[..., :1], beyond)], axis=-1) + 1
        reached = np.minimum(rows + ~equal, inserted)
        # Deleting d tokens of the true suffix costs d, so the best start of the deletions is a running minimum.
        steps = np.arange(self.width)
        rows = np.minimum.accumulate(reached - steps, axis=-1) + steps
        return np.where((positions >= 0) & (positions <= self.length), np.minimum(rows, beyond), beyond)

    def least(self, rows: IntArray, drawn: int) -> IntArray:
        """Return the smallest distance with which a row can end, ``[…]``.

        The remaining tokens of both sides can match, except for the difference of their numbers.
        """
        smallest: IntArray = (rows + np.abs(self.positions(drawn) - drawn)).min(axis=-1)
        return smallest

    def worst(self, rows: IntArray, drawn: int) -> IntArray:
        """Return the largest distance with which a row can end, ``[…]``: no remaining token matches."""
        left = np.maximum(self.length - drawn, self.length - self.positions(drawn))
        largest: IntArray = (rows + left).min(axis=-1)
        return largest


@dataclass(frozen=True)
class BandWindow:
    """Tokens of true suffixes that one drawn token may match within the band: ``[suffixes, width]`` each.

    ``distinct`` is True for the first occurrence of a token. A place without a token repeats another token. ``equal``
    ``[suffixes, width + 1, width]`` is the argument of :meth:`EditBand.follow` for each of ``tokens``, and for a token
    that is not among them.
    """

    tokens: IntArray
    distinct: BoolArray
    equal: BoolArray

    @classmethod
    def at(cls, band: EditBand, truth: IntArray, drawn: int) -> BandWindow:
        """Return the tokens for drawn token number ``drawn``, from 1; ``truth`` ``[suffixes, length]``."""
        tokens, there = band.window(truth, drawn)
        equal = (tokens[:, :, None] == tokens[:, None, :]) & there
        first = equal.argmax(axis=2)
        distinct = there & (first == np.arange(band.width))
        return cls(tokens, distinct, np.concatenate([equal, np.zeros_like(equal[:, :1])], axis=1))


def within(tokens: IntArray, truth: Sequence[int], most: int) -> BoolArray:
    """Return True for each row of ``tokens`` ``[n, L]`` that is at most ``most`` edits from ``truth`` ``[L]``."""
    band, true = EditBand(len(truth), most), np.array(truth, dtype=np.int64)
    rows = np.tile(band.first(), (len(tokens), 1))
    for drawn, column in enumerate(tokens.T, start=1):
        expected, there = band.window(true, drawn)
        rows = band.follow(rows, there & (expected == column[:, None]), drawn)
    near: BoolArray = rows[:, most] <= most
    return near
