"""The board as a table in the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from leakage_tasks.report.board.board import Board, Column, Entry, Group
from leakage_tasks.report.board.headings import heading, place, shown_columns
from leakage_tasks.report.reading import markdown
from leakage_tasks.report.reading.figures import Figure
from leakage_tasks.report.reading.format import (
    NOTHING,
    beside,
    beside_lines,
    flag_words,
    interval,
    number,
    verdict_words,
)

Cell = tuple[str, ...]
"""The lines of one cell of a table in the terminal."""
_EMPTY = Figure(None)
_OF_COLUMN = (
    *("key", "task", "metric", "filter", "title", "words"),
    *("unit", "chance", "better", "leakage", "shown", "copies"),
)
"""What JSON says of a column."""


def as_text(board: Board, *, every: bool = False, width: int | None = None) -> str:
    """A table a group, figures above their intervals, with flags in words below; at most ``width`` characters wide."""
    columns = shown_columns(board, every)
    parts = [part for at, group in enumerate(board.groups, 1) for part in _group_text(board, at, group, columns, width)]
    return "\n\n".join([*parts, _reading(board, columns, "above")]) + "\n"


def as_markdown(board: Board, *, every: bool = False) -> str:
    """The same as Markdown."""
    parts = []
    for at, group in enumerate(board.groups, 1):
        columns = [column for column in shown_columns(board, every) if _has(group, column)]
        head = ["#", "Model", *(markdown.escaped(heading(column)) for column in columns)]
        rows = [
            [place(entry), f"{markdown.escaped(entry.run.name)}<br>{markdown.escaped(entry.run.model)}"]
            + [_markdown_cell(entry.figures.get(column.key, _EMPTY)) for column in columns]
            for entry in group.entries
        ]
        title = [f"**{markdown.escaped(_title(board, at, group))}**\n"] if len(board.groups) > 1 else []
        said = "".join(f"- **{markdown.escaped(each)}**\n" for each in _verdicts(group))
        notes = said + "".join(f"- {markdown.escaped(note)}\n" for note in _notes(group))
        parts += [*title, markdown.table(head, rows), *([notes] if notes else [])]
    return "\n".join([*parts, f"{_reading(board, shown_columns(board, every), 'before')}\n"])


def as_csv(board: Board) -> str:
    """A line a run: every column, each with its interval's ends, its controls' value and its count."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    extra = ("", "_ci_low", "_ci_high", "_control", "_n")
    columns = [f"{column.key}{each}" for column in board.columns for each in extra]
    told = ["group", "apart_because", "place", "name", "model", "source", "date"]
    writer.writerow([*told, *map(_harmless, columns), "verdicts", "flags"])
    for at, group in enumerate(board.groups, 1):
        for entry in group.entries:
            texts = [group.reason, entry.place, entry.run.name, entry.run.model, entry.run.source, _date(entry)]
            figures = [entry.figures.get(column.key, _EMPTY) for column in board.columns]
            values = [
                value for each in figures for value in (each.value, each.low, each.high, each.control, each.count)
            ]
            said = ["; ".join(verdict_words(entry.verdicts)), "; ".join(flag_words(entry.flags))]
            line = [at, *texts, *values, *said]
            writer.writerow([_harmless(each) for each in line])
    return out.getvalue()


def as_json(board: Board) -> str:
    """Everything on the board as strict JSON."""
    data = {
        "columns": [{name: getattr(column, name) for name in _OF_COLUMN} for column in board.columns],
        "ranked_by": list(board.ranked_by),
        "groups": [
            {"apart_because": group.reason, "runs": [_json_entry(entry) for entry in group.entries]}
            for group in board.groups
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _date(entry: Entry) -> str:
    """When its newest results were written, as ISO 8601 in UTC; nothing where that is not known."""
    return "" if entry.run.time is None else entry.run.time.isoformat(timespec="seconds")


def _json_entry(entry: Entry) -> dict[str, Any]:
    return {
        "place": entry.place,
        "name": entry.run.name,
        "model": entry.run.model,
        "source": entry.run.source,
        "date": _date(entry) or None,
        "files": [str(file) for file in entry.run.files],
        "figures": {key: dataclasses.asdict(found) for key, found in entry.figures.items()},
        "verdicts": {task: dataclasses.asdict(each) for task, each in sorted(entry.verdicts.items())},
        "flags": [dataclasses.asdict(flag) for flag in entry.flags],
    }


def _reading(board: Board, columns: Sequence[Column], where: str) -> str:
    """How to read the tables; ``where`` a figure stands, seen from its interval."""
    entries = [entry for group in board.groups for entry in group.entries]
    figures = [entry.figures.get(column.key, _EMPTY) for entry in entries for column in columns]
    said = f"Arrows point to the better side. A figure stands {where} its 95 % interval, where it has one; n is the "
    said += "number of documents it rests on."
    controls = any(each.control is not None for each in figures)
    return f"{said} Controls were never shown to the model." if controls else said


def _group_text(board: Board, at: int, group: Group, columns: Sequence[Column], width: int | None) -> Iterator[str]:
    if len(board.groups) > 1:
        yield _title(board, at, group)
    names: list[Cell] = [("Model",), *(_name_cell(entry) for entry in group.entries)]
    there = [column for column in columns if _has(group, column)]
    cells = [
        [_head_cell(column), *(_cell(entry.figures.get(column.key, _EMPTY)) for entry in group.entries)]
        for column in there
    ]
    for chunk in _chunks(names, cells, width):
        yield _grid([names, *chunk])
    lines = [f"= {each}" for each in _verdicts(group)] + [f"! {note}" for note in _notes(group)]
    if lines:
        yield "\n".join(lines)


def _title(board: Board, at: int, group: Group) -> str:
    words = f"Group {at} of {len(board.groups)}"
    return f"{words}, not ranked against group 1: {group.reason}" if group.reason else words


def _notes(group: Group) -> list[str]:
    return [f"{entry.run.name}: {words}" for entry in group.entries for words in flag_words(entry.flags)]


def _verdicts(group: Group) -> list[str]:
    return [f"{entry.run.name}: {words}" for entry in group.entries for words in verdict_words(entry.verdicts)]


def _has(group: Group, column: Column) -> bool:
    return any(column.key in entry.figures for entry in group.entries)


def _name_cell(entry: Entry) -> Cell:
    flagged = "! " if entry.flags else ""
    return f"{place(entry)}. {flagged}{entry.run.name}".removeprefix(f"{NOTHING}. "), entry.run.model


def _head_cell(column: Column) -> Cell:
    words = heading(column).split()
    lines = [""]
    for word in words:
        if lines[-1] and len(lines[-1]) + len(word) >= 18:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return tuple(lines)


def _cell(found: Figure) -> Cell:
    return tuple(line for line in (number(found.value), interval(found), *beside_lines(found)) if line)


def _chunks(names: list[Cell], columns: list[list[Cell]], width: int | None) -> Iterator[list[list[Cell]]]:
    """Columns side by side as far as they fit."""
    chunk: list[list[Cell]] = []
    for column in columns:
        if chunk and width is not None and sum(_width(each) + 2 for each in [names, *chunk, column]) > width + 2:
            yield chunk
            chunk = []
        chunk.append(column)
    yield chunk


def _width(column: Sequence[Cell]) -> int:
    return max(len(line) for cell in column for line in cell)


def _grid(columns: list[list[Cell]]) -> str:
    """Columns of cells as text, the first to the left, figures to the right."""
    widths = [_width(column) for column in columns]
    lines = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        for at in range(max(map(len, cells))):
            parts = [cell[at] if at < len(cell) else "" for cell in cells]
            padded = [
                part.ljust(wide) if not n else part.rjust(wide)
                for n, (part, wide) in enumerate(zip(parts, widths, strict=True))
            ]
            lines.append("  ".join(padded).rstrip())
        lines.append("  ".join("-" * wide for wide in widths) if not row else "")
    return "\n".join(lines).rstrip("\n")


def _markdown_cell(found: Figure) -> str:
    lines = [f"{number(found.value)} {interval(found)}".strip(), beside(found)]
    return "<br>".join(markdown.escaped(line) for line in lines if line)


def _harmless(value: Any) -> Any:
    """Text that a spreadsheet would take for a formula, marked as text."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
