"""Plain text: a row is a line, however long; read in blocks, never whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import TEXT, Columns, Layout, Points, Turns
from leakage_tasks.data.lines import BLOCK, check_utf8, open_source, splice


class TextFormat:
    """``.txt``: no columns, no labels."""

    name = "text"
    running = True

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Count the lines. Raises PlantingError if columns are asked for or the file is not UTF-8."""
        if wanted.label is not None or wanted.source is not None or wanted.text != TEXT:
            asked = wanted.label or wanted.source or wanted.text
            raise PlantingError(f"{source}: a text file has no column {asked!r}: leave the column options out")
        facts = check_utf8(source)
        return Layout(facts.rows, (TEXT,), TEXT, head=facts.head, newline=facts.newline)

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy line by line; a line break in a template becomes the file's own."""
        lines = [(gap, _render(row[TEXT], layout.newline)) for gap, row in points]
        with open_source(source) as stream, output.open("wb") as out:
            stream.seek(len(layout.head))
            splice(layout.head, _pieces(stream), lines, layout.newline, out)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """The file in blocks; a line ending counts as one character, as Python reads text."""
        with path.open(encoding="utf-8-sig") as stream:
            while block := stream.read(BLOCK):
                yield (block,)


def _render(text: str, newline: bytes) -> bytes:
    if "\r" in text:
        raise PlantingError(f"a canary holds a carriage return ({text!r}), which a text file cannot keep: use .jsonl")
    return text.encode().replace(b"\n", newline)


def _pieces(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The lines in pieces of at most a block, each with whether it ends its line."""
    piece = stream.readline(BLOCK)
    while piece:
        following = stream.readline(BLOCK)
        yield piece, piece.endswith(b"\n") or not following
        piece = following
