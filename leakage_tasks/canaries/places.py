"""Positions of the canaries' copies, drawn before planting and computed again from the planting record afterwards."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from leakage_tasks.canaries.sidecar import Part
from leakage_tasks.core.errors import PlantingError

MOST_COPIES = 10_000_000
"""Maximum number of copies in a data set, whose positions are held in memory."""
Gap = tuple[int, str]
"""Number of a gap between rows (gap g follows the first g rows), and the id of the canary planted in it."""


def stream_of(seed: int, part: Part | None) -> str:
    """Return the seed with which the positions of a part's copies are drawn."""
    return f"validation:{seed}" if part == "validation" else str(seed)


def check_copies(source: object, copies: int) -> None:
    """Raise PlantingError if a manifest or record, ``source``, has more copies than :data:`MOST_COPIES`."""
    if copies > MOST_COPIES:
        raise PlantingError(f"{source}: has more than {MOST_COPIES:,} copies to plant: lower its repetitions")


def gaps_of(copies: Mapping[str, int], rows: int, seed: int | str) -> list[Gap]:
    """Return a gap (0 … ``rows``) for every copy, sorted by gap; ``copies`` gives the number of copies by canary id.

    Gaps are independent and uniform; copies in one gap are in random order. Each canary has its own random stream, so
    its gaps depend only on its id, the seed and ``rows``.
    """
    drawn = []
    for name, times in copies.items():
        stream = random.Random(f"plant:{seed}:{name}")
        drawn += [(stream.randrange(rows + 1), stream.random(), name) for _ in range(times)]
    return [(gap, name) for gap, _, name in sorted(drawn)]


def distribute_gaps(gaps: Sequence[Gap], rows: Sequence[int]) -> list[list[Gap]]:
    """Distribute gaps of concatenated data sets over these data sets, which have ``rows`` rows each.

    Numbers restart at 0 in each data set. The gap between two data sets is the first gap of the later one, so that
    every gap of the whole keeps its probability.
    """
    starts = [0, *accumulate(rows)][: len(rows)]
    # A data set without rows has no gap, unless it is the last one.
    dealt: list[list[Gap]] = [[] for _ in rows]
    for gap, name in gaps:
        index = bisect_right(starts, gap) - 1
        dealt[index].append((gap - starts[index], name))
    return dealt


def planted_rows(gaps: Sequence[Gap], heights: Mapping[str, int]) -> set[int]:
    """Return the indices of the rows that are copies in planted data.

    ``heights`` gives the number of rows of a canary's copy, if it is not 1.
    """
    copy_rows: set[int] = set()
    above = 0
    for gap, name in gaps:
        height = heights.get(name, 1)
        copy_rows.update(range(gap + above, gap + above + height))
        above += height
    return copy_rows
