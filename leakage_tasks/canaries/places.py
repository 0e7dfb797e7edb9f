"""Positions of the canaries' copies, and the rows that hold the copies.

Positions are drawn before planting and computed again from the planting record afterwards. The other columns of a row
that holds a copy get the values of other rows.
"""

from __future__ import annotations

import random
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.sidecar import Part
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data import Columns, Format, Layout, Points
from leakage_tasks.data.shapes import answer_in
from leakage_tasks.data.turns import turns_of

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


def check_prompt(prompt: str | None) -> None:
    """Raise OptionError for an empty prompt and for a prompt that UTF-8 cannot encode."""
    if prompt == "":
        raise OptionError("--prompt is empty: give the text before each copy, or leave it out")
    if prompt is not None and "Cs" in map(unicodedata.category, prompt):
        raise OptionError("--prompt contains a lone surrogate character, which UTF-8 cannot encode: give another text")


def points_of(
    kind: Format,
    source: Path,
    layout: Layout,
    wanted: Columns,
    gaps: Sequence[Gap],
    canaries: Mapping[str, Canary],
    stream: str,
) -> Points:
    """Return a row for every copy, with its gap.

    Args:
        kind: The format of the data.
        source: The data; copies take their other answers from its rows.
        layout: The layout of the data.
        wanted: The columns that the user named.
        gaps: The gap of each copy, and the id of its canary.
        canaries: The canaries by id.
        stream: The seed for drawing other answers.

    Raises:
        PlantingError: If no row of the data has the answers that copies need.
    """
    if not layout.drawn and not layout.companions:
        rows = {name: layout.row(canary) for name, canary in canaries.items()}
        return [(gap, rows[name]) for gap, name in gaps]
    answers = _answers(kind, source, layout, wanted, len(gaps), stream)
    return [(gap, layout.row(canaries[name], answer)) for (gap, name), answer in zip(gaps, answers, strict=True)]


def _answers(
    kind: Format, source: Path, layout: Layout, wanted: Columns, copies: int, stream: str
) -> Iterator[dict[str, Any]]:
    """Yield for each copy the values of a row, drawn uniformly from the rows that have all answers."""
    columns = (*layout.drawn, *layout.companions)
    able: Sequence[int] = range(layout.rows)
    if layout.drawn:
        rows = enumerate(kind.several(source, layout, wanted, layout.drawn))
        able = [row for row, values in rows if all(any(turns_of(answer_in(value))) for value in values)]
    if copies and not able:
        names = " and ".join(map(repr, layout.drawn or columns))
        raise PlantingError(
            f"{source}: no row has an answer in {names}, and a copy takes its answer "
            "from a row of the data: give data with such a row"
        )
    chosen = random.Random(f"answers:{stream}").choices(able, k=copies) if copies else []
    needed = set(chosen)
    values = enumerate(kind.several(source, layout, wanted, columns))
    drawn = {row: dict(zip(columns, held, strict=True)) for row, held in values if row in needed}
    return (drawn[row] for row in chosen)
