"""Comma-separated values with a header: the csv module finds the rows, which are copied byte for byte."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import register_format
from leakage_tasks.data.layout import (
    CHATS,
    TEXT,
    Columns,
    Layout,
    NoColumnError,
    Row,
    check_columns,
    choose_texts,
    note_label,
)
from leakage_tasks.data.lines import LARGEST_ROW, LineFormat, Pieces, check_rows, open_source

_DELIMITERS = ",\t;|"
_SURE_NAMES = frozenset((TEXT, *CHATS, "label", "instruction", "prompt"))
"""Names that occur in a header only, so that an error may list the whole first line. Others, such as ``id`` (a
language) and ``rejected`` (a decision), are also values of rows."""


@register_format("csv", "tsv")
class CommaFormat(LineFormat):
    """``.csv`` and ``.tsv``; the delimiter is chosen so that the header contains the text column."""

    name = "csv"
    breaks = (b"\n", b"\r")

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every row. Raises PlantingError, which names line and column."""
        facts = check_rows(source)
        layout = _read_header(source, wanted)
        layout.unpacked_sha256 = facts.unpacked
        label_index = None if wanted.label is None else layout.columns.index(wanted.label)
        for _, values in _rows(source, layout):
            if values:
                layout.rows += 1
                _check_width(source, layout, values)
                if label_index is not None and label_index < len(values):
                    note_label(layout.labels, values[label_index])
        return layout

    def peek(self, source: Path, wanted: Columns) -> Layout:
        """Read the header only."""
        try:
            return _read_header(source, wanted)
        except UnicodeDecodeError:
            return self.survey(source, wanted)  # its error names the line

    def render(self, row: Row, layout: Layout) -> bytes:
        """Return the row with a value for each column of the header, even if names repeat; None becomes empty."""
        line = io.StringIO()
        values = [row[name] for name in layout.columns]
        # The writer quotes a line break in a value only if its line terminator contains that character.
        csv.writer(line, delimiter=layout.delimiter, lineterminator="\r\n").writerow(values)
        return line.getvalue().removesuffix("\r\n").encode()

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """Return rows and blank lines as pieces."""
        return ((raw.encode(), bool(values)) for raw, values in _rows(source, layout))

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """Yield the column's values; a row that is too short gives an empty string."""
        return (value for (value,) in self.several(path, layout, wanted, (column,)))

    def several(self, path: Path, layout: Layout, wanted: Columns, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield the values of several columns; each row is parsed once."""
        indices = [layout.columns.index(column) for column in columns]
        for _, values in _rows(path, layout):
            if values:
                yield tuple(values[index] if index < len(values) else "" for index in indices)


def _read_header(source: Path, wanted: Columns) -> Layout:
    widest: list[str] = []
    for delimiter in _DELIMITERS:
        head, columns = _first_record(source, delimiter)
        widest = max(widest, columns, key=len)
        try:
            text, shape = choose_texts(source, columns, wanted)
        except NoColumnError:
            continue
        if text in CHATS and wanted.text == TEXT:
            # A cell holds a text, never a conversation.
            continue
        check_columns(source, columns, wanted, text)
        ending = b"\r\n" if head.endswith("\r\n") else b"\r" if head.endswith("\r") else b"\n"
        parts = () if shape is None else shape.parts(columns)
        layout = Layout(0, tuple(columns), text, wanted.label, wanted.source, shape=shape, parts=parts)
        layout.head, layout.newline, layout.delimiter = head.encode(), ending, delimiter
        return layout
    if _SURE_NAMES.isdisjoint(widest):
        # The file may have no header: names of people or diseases look like names of columns.
        problem = f"no column {wanted.text!r} in the first line, which must hold the columns' names"
        raise PlantingError(subject=str(source), problem=problem, remedy="name one with {}", option="text_column")
    raise NoColumnError(source, wanted.text, widest, "text_column")


def _check_width(source: Path, layout: Layout, values: list[str]) -> None:
    if len(values) > len(layout.columns):
        raise PlantingError(
            f"{source}: row {layout.rows} has {len(values)} values for {len(layout.columns)} columns, and readers "
            "disagree on their columns: name every column in the header, or quote values that hold the delimiter"
        )


def _first_record(source: Path, delimiter: str) -> tuple[str, list[str]]:
    head = ""
    for raw, columns in _records(source, delimiter):
        head += raw
        if columns:
            return head, columns
    raise PlantingError(f"{source}: is empty: expected a header with the names of the columns")


def _rows(source: Path, layout: Layout) -> Iterator[tuple[str, list[str]]]:
    """Yield every record after the header, including blank lines."""
    records = _records(source, layout.delimiter)
    for _, values in records:
        if values:
            break
    return records


def _records(source: Path, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every record's text in the file, with line endings, and its values (an empty list for a blank line)."""
    lines: list[str] = []
    held = 0

    def recorded(stream: Iterator[str]) -> Iterator[str]:
        nonlocal held
        for number, line in enumerate(stream):
            lines.append(line)
            held += len(line)
            if held >= LARGEST_ROW:
                first = number + 2 - len(lines)
                raise PlantingError(f"{source}:{first}: a row of 256 MiB or more: close its quotes, or split it")
            yield line if number else line.removeprefix("\ufeff")

    with io.TextIOWrapper(open_source(source), encoding="utf-8", newline="") as stream, _long_fields():
        reader = csv.reader(recorded(stream), delimiter=delimiter, strict=True)
        try:
            for values in reader:
                yield "".join(lines), values
                lines.clear()
                held = 0
        except csv.Error as error:
            raise PlantingError(f"{source}:{reader.line_num}: not CSV ({error}): fix the row") from None


@contextmanager
def _long_fields() -> Iterator[None]:
    """Lift the csv module's limit of 131,072 characters per field. The limit applies to the whole process."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)
