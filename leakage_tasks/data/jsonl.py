"""JSON lines: a row is a line holding an object; the other lines are copied byte for byte, by no JSON library."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import json_fault
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.data.base import register_format
from leakage_tasks.data.chat import Turns, is_chat, turns_of
from leakage_tasks.data.layout import (
    Additions,
    Columns,
    Layout,
    Row,
    check_columns,
    choose_text_column,
    lost_rows,
    note_label,
)
from leakage_tasks.data.lines import BOM, LineFormat, check_rows, open_source, outline_of
from leakage_tasks.data.turns import json_with_addition


@register_format("jsonl")
class JsonLinesFormat(LineFormat):
    """``.jsonl``: the first row says which column is the text; columns are the keys of all rows."""

    name = "jsonl"

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every row. Raises PlantingError naming line and column."""
        layout, texts = self.reading(source, wanted)
        deque(texts, 0)
        return layout

    def reading(self, source: Path, wanted: Columns) -> tuple[Layout, Iterator[Turns]]:
        """Parse every row once, for both."""
        facts = check_rows(source)
        layout = Layout(0, (), "", wanted.label, wanted.source, head=facts.head, newline=facts.newline)
        layout.unpacked_sha256, layout.characters = facts.unpacked, 0
        texts = _surveyed(source, wanted, layout)
        # The first row says what the text is.
        first = next(texts)
        return layout, chain((first,), texts)

    def outline(self, source: Path, wanted: Columns) -> Layout:
        """How the file begins."""
        return outline_of(source)

    def render(self, row: Row, layout: Layout) -> bytes:
        """JSON; half a surrogate pair, as a column's name may hold, as the escape it was read from."""
        try:
            return json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(row).encode()

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Copy line by line; of a row that gets a text, all other bytes too."""
        row = 0
        with output.open("wb") as out:
            out.write(layout.head)
            for line, is_row in self.pieces(source, layout):
                if is_row and row in additions:
                    out.write(json_with_addition(line.decode(), layout.text, *additions[row]).encode())
                else:
                    out.write(line)
                row += is_row
        if row != layout.rows:
            raise lost_rows(row)

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """What every row has under that key, None where it lacks it."""
        return (row.get(column) for _, row in objects(path))


def _surveyed(source: Path, wanted: Columns, layout: Layout) -> Iterator[Turns]:
    """The texts of every row, while ``layout`` is filled."""
    columns: dict[str, None] = {}
    characters = 0
    for number, row in objects(source):
        columns.update(dict.fromkeys(row))
        if not layout.rows:
            layout.text = choose_text_column(source, list(row), wanted)
            layout.chat = is_chat(row[layout.text])
        _check_values(source, number, row, layout)
        if wanted.label is not None:
            note_label(layout.labels, row.get(wanted.label))
        layout.rows += 1
        turns = turns_of(row.get(layout.text))
        characters += sum(map(len, turns))
        yield turns
    if not layout.rows:
        raise PlantingError(f"{source}: holds no row, so its columns are unknown: give it one or more")
    layout.columns, layout.characters = tuple(columns), characters
    check_columns(source, layout.columns, wanted, layout.text)


def objects(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Every row of a file with its line number, blank lines skipped. Raises PlantingError naming the line."""
    with open_source(source) as stream:
        try:
            for number, row in read_json_lines(_without_mark(stream)):
                if not isinstance(row, dict):
                    raise PlantingError(f"{source}:{number}: holds {type(row).__name__}, expected an object of columns")
                yield number, row
        except LineError as bad:
            error = bad.error
            reason = json_fault(error).reason if isinstance(error, json.JSONDecodeError) else "beyond what can be read"
            raise PlantingError(f"{source}:{bad.number}: not JSON ({reason}): fix the line") from None


def _without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(BOM)


def _check_values(source: Path, number: int, row: dict[str, Any], layout: Layout) -> None:
    """Raise PlantingError for a text or source that is none."""
    for column, chat in ((layout.text, layout.chat), (layout.source, False)):
        value = None if column is None else row.get(column)
        if value is None or (is_chat(value) if chat else isinstance(value, str)):
            continue
        expected = "chat turns with 'role' and 'content'" if chat else "text"
        found = type(value).__name__
        raise PlantingError(f"{source}:{number}: column {column!r} holds {found}, expected {expected}: fix the row")
