"""Runs of tokens that a written text and the true suffix have in common, in order."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher

SHORTEST = 3
"""Smallest length of a run in a finding, in tokens; shorter runs are common in any two texts."""


def equal_blocks(written: Sequence[int], true: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """Return the runs of equal tokens as (first position in ``written``, first position in ``true``, length).

    The longest run comes first in the search, then the longest runs before and after it, and so on
    (``difflib.SequenceMatcher``), so the runs have one order in both texts. Negative ids are placeholders for missing
    tokens and equal nothing.
    """
    matcher = SequenceMatcher(None, list(written), list(true), autojunk=False)
    found = [(block.a, block.b, block.size) for block in matcher.get_matching_blocks() if block.size >= SHORTEST]
    return tuple(found)
