"""Which of the questions that wait for passes are answered now, and which had better wait for others."""

from __future__ import annotations

import math
from collections.abc import Sequence

ROUNDING = 1e-6
"""Passes that sums of shares may be off by."""


def answered_now(sizes: Sequence[float], held: Sequence[int]) -> set[int]:
    """Places of the questions to be answered: all, or those whose passes are fuller without the others.

    ``sizes`` are shares of a pass, ``held`` for how many rounds each has waited. What has waited most comes first, then
    what fills most.
    """
    every = set(range(len(sizes)))
    total = sum(sizes)
    whole = math.floor(total + ROUNDING)
    chosen, filled = set[int](), 0.0
    for place in sorted(every, key=lambda place: (-held[place], -sizes[place])):
        if filled + sizes[place] <= whole + ROUNDING:
            chosen.add(place)
            filled += sizes[place]
    return chosen if chosen and _fullness(filled) > _fullness(total) + ROUNDING else every


def _fullness(size: float) -> float:
    """How full passes are, on average, that read so many passes' worth of rows."""
    return size / max(1, math.ceil(size - ROUNDING))
