"""Rows that hold copies of canaries; the remaining columns get the values of other rows."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.places import Gap
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data import Columns, Format, Layout, Points
from leakage_tasks.data.shapes import answer_in
from leakage_tasks.data.turns import turns_of


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
