"""What the board's table shows of columns, runs and figures, beside what these hold."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.report.board.board import Board, Column, Entry
from leakage_tasks.report.reading.figures import Figure
from leakage_tasks.report.reading.format import ARROWS

WIDE, ROOM = 56.0, 4.0
"""Width of the little picture of an interval, and what is left free at its ends, in pixels."""
_BETTER = {"lower": "lower is better", "higher": "higher is better", None: "no better side"}


def explained(board: Board, column: Column) -> list[tuple[str, str]]:
    """What explains a column: pairs of a word and its text."""
    whom = " for the defender" if column.leakage and column.better else ""
    kinds = dict.fromkeys(found.kind for found in _figures(board, column) if found.kind)
    of = f", filter {column.filter}" if column.key.endswith(f"/{column.filter}") else ""
    return [
        ("Unit", column.unit or "number"),
        ("Direction", f"{_BETTER[column.better]}{whom}"),
        *([("Without a leak", column.chance)] if column.chance else []),
        *([("95 % interval", ", ".join(kinds))] if kinds else []),
        ("In the results", f"{column.name} of {column.task}{of}"),
    ]


def below_title(column: Column) -> str:
    """Unit and direction, as they stand below a column's title."""
    if column.better is None:
        return column.unit
    unit = f"{column.unit}, " if column.unit else ""
    return f"{unit}{_BETTER[column.better]}\N{NO-BREAK SPACE}{ARROWS[column.better]}"


def badges(entry: Entry) -> Sequence[tuple[str, bool]]:
    """A run's flags in few words, each with whether it is a fault."""
    return list(dict.fromkeys((flag.words.partition(":")[0], flag.fault) for flag in entry.flags))


def scale(board: Board, column: Column) -> tuple[float, float]:
    """From the least to the greatest end in a column, and from 0 where figures are not below it; shares end at 1."""
    ends = [end for each in _figures(board, column) for end in (each.value, each.low, each.high, each.control)]
    known = [0.0, *(end for end in ends if end is not None)]
    most = max(known)
    return min(known), 1.0 if column.unit in ("share", "probability") and most <= 1 else most


def picture(found: Figure, scale: tuple[float, float]) -> dict[str, float | None] | None:
    """Where an interval, its value and its controls' value lie, in pixels; None without an interval."""
    low, high = scale
    if found.value is None or found.low is None or found.high is None or high <= low:
        return None
    ends = {"value": found.value, "low": found.low, "high": found.high, "control": found.control}
    room = WIDE - 2 * ROOM
    return {
        name: None if end is None else round(ROOM + room * (end - low) / (high - low), 1) for name, end in ends.items()
    }


def _figures(board: Board, column: Column) -> list[Figure]:
    return [entry.figure(column) for entry in board.entries]
