"""A check that no non-member is a member, in full or in part."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs.documents import GRAM, hashed_grams

Numbered = Sequence[tuple[int, str]]
"""Texts with their numbers in their data."""


def check_overlap(members: Numbered, nonmembers: Numbered, names: tuple[str, str], grams: bool) -> None:
    """Raise OptionError if a non-member equals a member, or, if ``grams``, shares :data:`.GRAM` words in a row.

    Case and white space do not count. ``names`` are the user's names of both classes.
    """
    seen, unseen = names
    known = {_normal(text): number for number, text in members}
    for number, text in nonmembers:
        if _normal(text) in known:
            raise OptionError(
                f"{unseen}: text {number} (from 0) equals text {known[_normal(text)]} of {seen}, so it is no text that "
                "the model never saw: remove it from one of them"
            )
    if not grams:
        return
    words: dict[str, int] = {}
    of_members, _ = _grams(members, words)
    others, numbers = _grams(nonmembers, words)
    shared = np.isin(others, of_members, assume_unique=True)
    if shared.any():
        raise OptionError(
            f"{unseen}: text {int(numbers[shared].min())} (from 0) shares {GRAM} words in a row with {seen}, so it is "
            "no text that the model never saw: remove it"
        )


def _grams(texts: Numbered, words: dict[str, int]) -> tuple[IntArray, IntArray]:
    """Return the hashes of all runs of words, and a text with each; ``words`` gets a number for each new word."""
    rows = [[words.setdefault(word, len(words)) for word in _normal(text).split()] for _, text in texts]
    return hashed_grams([number for number, _ in texts], [np.array(row, dtype=np.int64) for row in rows])


def _normal(text: str) -> str:
    return " ".join(text.lower().split())
