"""A board's columns and places in few characters, the same in every report."""

from __future__ import annotations

from collections.abc import Sequence

from leakage_tasks.report.board.board import Board, Column, Entry
from leakage_tasks.report.reading.format import ARROWS, NOTHING


def heading(column: Column) -> str:
    """A column's title with the direction that is better and the unit."""
    unit = f", {column.unit}" if column.unit and column.unit not in ("share", "probability") else ""
    return f"{column.title}{unit} {ARROWS[column.better]}".rstrip()


def shown_columns(board: Board, every: bool = False) -> Sequence[Column]:
    """The columns to show: the headlines that some run has, or ``every`` one."""
    return [column for column in board.columns if every or column.shown]


def place(entry: Entry) -> str:
    """Its place in its group; a dash where it is not ranked."""
    return NOTHING if entry.place is None else str(entry.place)
