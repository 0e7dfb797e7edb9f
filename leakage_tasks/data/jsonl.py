"""JSON lines: each row is a line with an object; unchanged lines are copied byte for byte, without a JSON library."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import json_fault
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.data.additions import json_with_addition
from leakage_tasks.data.base import register_format
from leakage_tasks.data.chat import Turns
from leakage_tasks.data.layout import (
    TEXT,
    Additions,
    Columns,
    Layout,
    Row,
    check_columns,
    choose_texts,
    lost_rows,
    note_label,
)
from leakage_tasks.data.lines import BOM, LineFormat, check_rows, open_source, outline_of
from leakage_tasks.data.mixed_rows import check_alike
from leakage_tasks.data.turns import Dialect, chat_problem, dialect_of, is_chat, looks_like_chat, turns_of


@register_format("jsonl")
class JsonLinesFormat(LineFormat):
    """The format of ``.jsonl`` files; the first row determines the text column, and the columns are the keys of all
    rows."""

    name = "jsonl"

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every row. Raises PlantingError, which names line and column."""
        layout, texts = self.reading(source, wanted)
        deque(texts, 0)
        return layout

    def reading(self, source: Path, wanted: Columns) -> tuple[Layout, Iterator[Turns]]:
        """Parse every row once, for layout and texts."""
        facts = check_rows(source)
        layout = Layout(0, (), "", wanted.label, wanted.source, head=facts.head, newline=facts.newline)
        layout.unpacked_sha256, layout.characters = facts.unpacked, 0
        kinds: dict[str, bool] = {}
        texts = _surveyed(source, wanted, layout, kinds)
        held = []
        # The first row with a text determines if texts are chats.
        for turns in texts:
            held.append(turns)
            if layout.text in kinds:
                break
        return layout, chain(held, texts)

    def outline(self, source: Path, wanted: Columns) -> Layout:
        """Return a layout with only the file's head and line ending."""
        return outline_of(source)

    def render(self, row: Row, layout: Layout) -> bytes:
        """Return the row as JSON; a lone surrogate, which a column's name may contain, is escaped as in the input."""
        try:
            return json.dumps(row, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            return json.dumps(row).encode()

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Copy line by line; in a changed row, all other bytes stay unchanged."""
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
        """Yield every row's value for this key, or None for a missing key."""
        return (row.get(column) for _, row in objects(path))

    def several(self, path: Path, layout: Layout, wanted: Columns, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield every row's values for these keys; each line is parsed once."""
        return (tuple(map(row.get, columns)) for _, row in objects(path))


def _surveyed(source: Path, wanted: Columns, layout: Layout, kinds: dict[str, bool]) -> Iterator[Turns]:
    """Yield the texts of every row and fill ``layout``.

    ``kinds`` gets an entry for each text column with a value: True if the column holds chats.
    """
    columns: dict[str, None] = {}
    characters = 0
    for number, row in objects(source):
        columns.update(dict.fromkeys(row))
        if not layout.rows:
            layout.text, layout.shape = choose_texts(source, list(row), wanted)
        elif wanted.text == TEXT and not wanted.text_named:
            check_alike(source, number, row, layout)
        parts = (layout.text,) if layout.shape is None else layout.shape.parts(row)
        for column in parts:
            _check_text(source, number, column, row.get(column), layout, kinds)
        _check_source(source, number, row, layout)
        if wanted.label is not None:
            note_label(layout.labels, row.get(wanted.label))
        layout.rows += 1
        turns = turns_of(row.get(parts[0])) if len(parts) == 1 else _texts(row, parts)
        characters += sum(map(len, turns))
        yield turns
    if not layout.rows:
        raise PlantingError(f"{source}: holds no row, so its columns are unknown: give it one or more")
    layout.columns, layout.characters = tuple(columns), characters
    layout.parts = () if layout.shape is None else layout.shape.parts(layout.columns)
    layout.dialects |= {name: Dialect() for name, chat in kinds.items() if chat and name not in layout.dialects}
    check_columns(source, layout.columns, wanted, layout.text)


def objects(source: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield every row with its line number, without blank lines. Raises PlantingError, which names the line."""
    with open_source(source) as stream:
        try:
            for number, row in read_json_lines(_without_mark(stream)):
                if not isinstance(row, dict):
                    raise PlantingError(f"{source}:{number}: holds {type(row).__name__}, expected an object of columns")
                yield number, row
        except LineError as bad:
            error = bad.error
            where = f"{source}:{bad.number}"
            if isinstance(error, UnicodeDecodeError):
                raise PlantingError(f"{where}: not UTF-8: save the file as UTF-8 first") from None
            reason = (
                json_fault(error).reason if isinstance(error, json.JSONDecodeError) else "beyond the parser's limits"
            )
            raise PlantingError(f"{where}: not JSON ({reason}): fix the line") from None


def _without_mark(lines: Iterable[bytes]) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        yield line if number else line.removeprefix(BOM)


def _texts(row: dict[str, Any], parts: Sequence[str]) -> Turns:
    return tuple(chain.from_iterable(turns_of(row.get(column)) for column in parts))


def _check_text(source: Path, number: int, column: str, value: Any, layout: Layout, kinds: dict[str, bool]) -> None:
    """Record if a text column holds chats. Raises PlantingError for a value that is neither text nor chat turns."""
    if value is None:
        return
    chat = kinds.setdefault(column, looks_like_chat(value))
    if column == layout.text:
        layout.chat = chat
    if chat and not is_chat(value):
        raise PlantingError(f"{source}:{number}: column {column!r} {chat_problem(value)}: fix the row")
    if not chat and not isinstance(value, str):
        type_name = type(value).__name__
        raise PlantingError(f"{source}:{number}: column {column!r} holds {type_name}, expected text: fix the row")
    if chat and column not in layout.dialects and (dialect := dialect_of(value)) is not None:
        layout.dialects[column] = dialect


def _check_source(source: Path, number: int, row: dict[str, Any], layout: Layout) -> None:
    value = None if layout.source is None else row.get(layout.source)
    if value is not None and not isinstance(value, str):
        type_name = type(value).__name__
        raise PlantingError(
            f"{source}:{number}: column {layout.source!r} holds {type_name}, expected text: fix the row"
        )
