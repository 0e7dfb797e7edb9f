"""The board's table as rows of cells, with all that stands beside a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakage_tasks.report.board.board import Board, Column, Entry, Group
from leakage_tasks.report.board.headings import place
from leakage_tasks.report.reading.figures import Figure, Flag
from leakage_tasks.report.reading.format import ARROWS, beside_lines, flag_words, interval, number, verdict_words

WIDE, ROOM = 56.0, 4.0
"""Width of the little picture of an interval, and what is left free at its ends, in pixels."""
_EMPTY = Figure(None)


@dataclass(frozen=True)
class ColumnHead:
    """A column's head, and what explains it: pairs of a word and its text."""

    id: str
    title: str
    below: str
    leakage: bool
    extra: bool
    words: str
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Picture:
    """Where an interval, its value and its controls' value lie, in pixels; None where there is none."""

    value: float
    low: float | None
    high: float | None
    control: float | None


@dataclass(frozen=True)
class Cell:
    """A figure as text, and ``value`` as Python writes it, to sort by; empty where there is none."""

    value: str
    text: str
    interval: str
    beside: tuple[str, ...]
    picture: Picture | None
    extra: bool


@dataclass(frozen=True)
class BoardRow:
    """A run: ``badges`` are its flags in few words, each with whether it is a fault; ``rank`` sorts by place."""

    name: str
    model: str
    source: str
    place: str
    rank: str
    badges: tuple[tuple[str, bool], ...]
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class BoardGroup:
    """A group: its title (nothing where there is but one), its lines, its verdicts and its warnings in words."""

    title: str
    reason: str
    lines: tuple[BoardRow, ...]
    verdicts: tuple[tuple[str, str], ...]
    notes: tuple[tuple[str, str], ...]


def heads(board: Board) -> list[ColumnHead]:
    """The columns' heads, in order."""
    return [_head(f"about-{at}", column, _kinds(board, column)) for at, column in enumerate(board.columns)]


def parts(board: Board) -> list[BoardGroup]:
    """The groups, in order."""
    scales = [_scale(board, column) for column in board.columns]
    return [_part(board, at, group, scales) for at, group in enumerate(board.groups, 1)]


def _head(name: str, column: Column, kinds: Sequence[str]) -> ColumnHead:
    unit = column.unit or "number"
    better = {"lower": "lower is better", "higher": "higher is better", None: "no better side"}[column.better]
    whom = " for the defender" if column.leakage and column.better else ""
    facts = [("Unit", unit), ("Direction", f"{better}{whom}")]
    facts += [("Without a leak", column.chance)] if column.chance else []
    facts += [("95 % interval", ", ".join(kinds))] if kinds else []
    facts.append(("In the results", f"{column.metric} of {column.task}" + _filter(column)))
    below = f"{column.unit}, {better}" if column.unit else better
    return ColumnHead(
        id=name,
        title=column.title,
        below=f"{below}\N{NO-BREAK SPACE}{ARROWS[column.better]}" if column.better else column.unit,
        leakage=column.leakage,
        extra=not column.shown,
        words=column.words,
        facts=tuple(facts),
    )


def _filter(column: Column) -> str:
    return f", filter {column.filter}" if column.key.endswith(f"/{column.filter}") else ""


def _kinds(board: Board, column: Column) -> list[str]:
    """How the column's intervals were got."""
    return list(dict.fromkeys(each.kind for each in _figures(board, column) if each.kind))


def _figures(board: Board, column: Column) -> list[Figure]:
    return [entry.figures.get(column.key, _EMPTY) for group in board.groups for entry in group.entries]


def _part(board: Board, at: int, group: Group, scales: Sequence[tuple[float, float]]) -> BoardGroup:
    words = f"Group {at} of {len(board.groups)}" if len(board.groups) > 1 else ""
    notes = tuple((entry.run.name, each) for entry in group.entries for each in flag_words(entry.flags))
    said = tuple((entry.run.name, each) for entry in group.entries for each in verdict_words(entry.verdicts))
    return BoardGroup(words, group.reason, tuple(_line(board, entry, scales) for entry in group.entries), said, notes)


def _line(board: Board, entry: Entry, scales: Sequence[tuple[float, float]]) -> BoardRow:
    cells = [
        _cell(entry.figures.get(column.key, _EMPTY), scale, not column.shown)
        for column, scale in zip(board.columns, scales, strict=True)
    ]
    run = entry.run
    rank = "" if entry.place is None else str(entry.place)
    badges = dict.fromkeys((_short(flag), flag.fault) for flag in entry.flags)
    return BoardRow(run.name, run.model, run.source, place(entry), rank, tuple(badges), tuple(cells))


def _short(flag: Flag) -> str:
    return flag.words.partition(":")[0]


def _cell(found: Figure, scale: tuple[float, float], extra: bool) -> Cell:
    return Cell(
        value="" if found.value is None else repr(found.value),
        text=number(found.value),
        interval=interval(found),
        beside=() if found.value is None else tuple(beside_lines(found)),
        picture=_picture(found, scale),
        extra=extra,
    )


def _scale(board: Board, column: Column) -> tuple[float, float]:
    """From the least to the greatest end in a column, and from 0 where figures are not below it; shares end at 1."""
    ends = [end for each in _figures(board, column) for end in (each.value, each.low, each.high, each.control)]
    known = [0.0, *(end for end in ends if end is not None)]
    most = max(known)
    return min(known), 1.0 if column.unit in ("share", "probability") and most <= 1 else most


def _picture(found: Figure, scale: tuple[float, float]) -> Picture | None:
    low, high = scale
    if found.value is None or found.low is None or found.high is None or high <= low:
        return None

    def at(value: float | None) -> float | None:
        return None if value is None else round(ROOM + (WIDE - 2 * ROOM) * (value - low) / (high - low), 1)

    value = at(found.value)
    assert value is not None
    return Picture(value, at(found.low), at(found.high), at(found.control))
