"""Leaderboard as a table in the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from leakage_tasks.core.text_table import text_table
from leakage_tasks.report.board.board import Board, Column, Entry, Group
from leakage_tasks.report.board.outputs import register_board
from leakage_tasks.report.load import markdown
from leakage_tasks.report.load.figures import Figure, control_words
from leakage_tasks.report.load.format import (
    NOTHING,
    context_lines,
    flag_words,
    interval,
    number,
    verdict_words,
    with_interval,
)

Cell = tuple[str, ...]
"""The lines of one cell of a table in the terminal."""
_OF_COLUMN = ("filter", "title", "description", "unit", "chance", "direction", "leakage", "shown", "copies")
"""Fields of a column in JSON, in addition to its names."""


def as_text(board: Board, *, every: bool = False, width: int | None = None) -> str:
    """Return one table per group, at most ``width`` characters wide, with flags and verdicts below."""
    columns = [column for column in board.columns if every or column.shown]
    parts = [
        part for index, group in enumerate(board.groups, 1) for part in _group_text(board, index, group, columns, width)
    ]
    return "\n\n".join([*parts, _legend(board, columns, "above")]) + "\n"


@register_board("md")
def as_markdown(board: Board, *, every: bool = False) -> str:
    """Return one Markdown table per group, with flags and verdicts below."""
    shown = [column for column in board.columns if every or column.shown]
    parts = []
    for index, group in enumerate(board.groups, 1):
        columns = [column for column in shown if _has(group, column)]
        head = ["#", "Model", *(markdown.escaped(column.heading) for column in columns)]
        rows = [
            [entry.place_text, f"{markdown.escaped(entry.run.name)}<br>{markdown.escaped(entry.run.model)}"]
            + [_markdown_cell(entry.figure(column)) for column in columns]
            for entry in group.entries
        ]
        title = [f"**{markdown.escaped(_title(board, index, group))}**\n"] if len(board.groups) > 1 else []
        notes = [f"- **{markdown.escaped(verdict)}**\n" for verdict in _verdicts(group)]
        notes += [f"- {markdown.escaped(note)}\n" for note in _notes(group)]
        parts += [*title, markdown.table(head, rows), *(["".join(notes)] if notes else [])]
    return "\n".join([*parts, f"{_legend(board, shown, 'before')}\n"])


@register_board("csv")
def as_csv(board: Board) -> str:
    """Return one CSV line per run: every column with its interval's ends, its controls' value and its count."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    extra: tuple[str, ...] = ("", "_ci_low", "_ci_high", "_control", "_n")
    with_copies = any(figure.learnt for entry in board.entries for figure in entry.figures.values())
    extra += ("_learnt", "_copies") if with_copies else ()
    columns = [f"{column.key}{suffix}" for column in board.columns for suffix in extra]
    head = ["group", "apart_because", "place", "name", "model", "source", "date"]
    writer.writerow([*head, *map(_harmless, columns), "verdicts", "flags"])
    for index, group in enumerate(board.groups, 1):
        for entry in group.entries:
            texts = [group.reason, entry.place, entry.run.name, entry.run.model, entry.run.whole, _date(entry)]
            figures = map(entry.figure, board.columns)
            values = [value for figure in figures for value in _csv_values(figure)[: len(extra)]]
            notes = ["; ".join(verdict_words(entry.verdicts)), "; ".join(flag_words(entry.flags))]
            writer.writerow(map(_harmless, [index, *texts, *values, *notes]))
    return out.getvalue()


@register_board("json")
def as_json(board: Board) -> str:
    """Return the whole board as strict JSON."""
    data = {
        "columns": [
            {"key": column.key, "task": column.task, "metric": column.name}
            | {name: getattr(column, name) for name in _OF_COLUMN}
            for column in board.columns
        ],
        "ranked_by": list(board.ranked_by),
        "groups": [
            {"apart_because": group.reason, "runs": [_json_entry(entry) for entry in group.entries]}
            for group in board.groups
        ],
    }
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _csv_values(figure: Figure) -> tuple[float | None, ...]:
    return figure.value, figure.low, figure.high, figure.control, figure.count, *(figure.learnt or (None, None))


def _date(entry: Entry) -> str:
    """Return the time of the newest results as ISO 8601 in UTC, or an empty text if unknown."""
    return "" if entry.run.time is None else entry.run.time.isoformat(timespec="seconds")


def _json_entry(entry: Entry) -> dict[str, Any]:
    return {
        "place": entry.place,
        "name": entry.run.name,
        "model": entry.run.model,
        "source": entry.run.whole,
        "date": _date(entry) or None,
        "files": [str(file) for file in entry.run.files],
        "figures": {key: dataclasses.asdict(figure) for key, figure in entry.figures.items()},
        "verdicts": {task: dataclasses.asdict(verdict) for task, verdict in sorted(entry.verdicts.items())},
        "flags": [dataclasses.asdict(flag) for flag in entry.flags],
    }


def _legend(board: Board, columns: Sequence[Column], position: str) -> str:
    """Explain the tables; ``position`` places a value relative to its interval (``above`` or ``before``)."""
    legend = f"Arrows point to the better side. Each value is {position} its 95 % interval, if it has one; n is the "
    legend += "number of documents behind it."
    figures = ((column, entry.figure(column)) for entry in board.entries for column in columns)
    controls = control_words(column.control for column, figure in figures if figure.control is not None)
    return f"{legend} {controls}".rstrip()


def _group_text(board: Board, index: int, group: Group, columns: Sequence[Column], width: int | None) -> Iterator[str]:
    if len(board.groups) > 1:
        yield _title(board, index, group)
    names: list[Cell] = [("Model",), *map(_name_cell, group.entries)]
    cells = [
        [_head_cell(column), *(_cell(entry.figure(column)) for entry in group.entries)]
        for column in columns
        if _has(group, column)
    ]
    for chunk in _chunks(names, cells, width):
        yield _grid([names, *chunk])
    lines = [f"= {verdict}" for verdict in _verdicts(group)] + [f"! {note}" for note in _notes(group)]
    if lines:
        yield "\n".join(lines)


def _title(board: Board, index: int, group: Group) -> str:
    words = f"Group {index} of {len(board.groups)}"
    return f"{words}, not ranked against group 1: {group.reason}" if group.reason else words


def _notes(group: Group) -> list[str]:
    return [f"{entry.run.name}: {words}" for entry in group.entries for words in flag_words(entry.flags)]


def _verdicts(group: Group) -> list[str]:
    return [f"{entry.run.name}: {words}" for entry in group.entries for words in verdict_words(entry.verdicts)]


def _has(group: Group, column: Column) -> bool:
    return any(column.key in entry.figures for entry in group.entries)


def _name_cell(entry: Entry) -> Cell:
    flagged = "! " if entry.flags else ""
    return f"{entry.place_text}. {flagged}{entry.run.name}".removeprefix(f"{NOTHING}. "), entry.run.model


def _head_cell(column: Column) -> Cell:
    lines = [""]
    for word in column.heading.split():
        if lines[-1] and len(lines[-1]) + len(word) >= 18:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return tuple(lines)


def _cell(figure: Figure) -> Cell:
    return tuple(line for line in (number(figure.value), interval(figure), *context_lines(figure)) if line)


def _chunks(names: list[Cell], columns: list[list[Cell]], width: int | None) -> Iterator[list[list[Cell]]]:
    chunk: list[list[Cell]] = []
    for column in columns:
        if chunk and width is not None and sum(_width(cells) + 2 for cells in [names, *chunk, column]) > width + 2:
            yield chunk
            chunk = []
        chunk.append(column)
    yield chunk


def _width(column: Sequence[Cell]) -> int:
    return max(len(line) for cell in column for line in cell)


def _grid(columns: list[list[Cell]]) -> str:
    """Format columns of cells as text, the first column left-aligned, the others right-aligned."""
    lines: list[Sequence[str]] = []
    for row, cells in enumerate(zip(*columns, strict=True)):
        lines += zip_longest(*cells, fillvalue="")
        lines.append(["" if row else "-" * _width(column) for column in columns])
    return text_table(lines).rstrip("\n")


def _markdown_cell(figure: Figure) -> str:
    lines = [with_interval(figure), ", ".join(context_lines(figure))]
    return "<br>".join(markdown.escaped(line) for line in lines if line)


def _harmless(value: Any) -> Any:
    """Mark text that a spreadsheet would read as a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
