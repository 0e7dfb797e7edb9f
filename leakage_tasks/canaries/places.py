"""Where the copies of canaries go: places drawn before planting, and found again from the record after it."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from leakage_tasks.canaries.sidecar import Part

Gap = tuple[int, str]
"""A gap (gap g is after the first g rows), and the id of the canary that goes there."""


def stream_of(seed: int, part: Part | None) -> str:
    """What the places of a part's copies are drawn with."""
    return f"validation:{seed}" if part == "validation" else str(seed)


def gaps_of(copies: Mapping[str, int], rows: int, seed: int | str) -> list[Gap]:
    """A gap (0 … ``rows``) for every copy, given by id with their numbers, sorted by gap.

    Gaps are independent and uniform; copies in one gap stand in random order. Each canary has a random stream of its
    own, so a gap follows from the canary's id, the seed and ``rows`` alone.
    """
    drawn = []
    for name, times in copies.items():
        stream = random.Random(f"plant:{seed}:{name}")
        drawn += [(stream.randrange(rows + 1), stream.random(), name) for _ in range(times)]
    return [(gap, name) for gap, _, name in sorted(drawn)]


def deal(gaps: Sequence[Gap], rows: Sequence[int]) -> list[list[Gap]]:
    """The gaps of each of several data sets that follow each other, of so many ``rows``; counted from its own start.

    The gap between two of them is the later one's first, so all of the gaps are as likely as if they were one.
    """
    starts = [0, *accumulate(rows)][: len(rows)]
    # One without rows has no gap of its own, unless it is the last.
    dealt: list[list[Gap]] = [[] for _ in rows]
    for gap, name in gaps:
        place = bisect_right(starts, gap) - 1
        dealt[place].append((gap - starts[place], name))
    return dealt


def planted_rows(gaps: Sequence[Gap], heights: Mapping[str, int]) -> set[int]:
    """The rows of a planted data set that are copies; ``heights``: how many rows a copy takes, where not one."""
    found: set[int] = set()
    above = 0
    for gap, name in gaps:
        height = heights.get(name, 1)
        found.update(range(gap + above, gap + above + height))
        above += height
    return found
