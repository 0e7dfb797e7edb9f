"""Plain text: a row is a line, however long; read in blocks, never whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import TEXT, Columns, Layout, Row, Turns
from leakage_tasks.data.lines import BLOCK, LineFormat, Pieces, check_utf8, open_source


class TextFormat(LineFormat):
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

    def render(self, row: Row, layout: Layout) -> bytes:
        """The text; a line break in a template becomes the file's own."""
        text: str = row[TEXT]
        if "\r" in text:
            raise PlantingError(
                f"a canary holds a carriage return ({text!r}), which a text file cannot keep: use .jsonl"
            )
        return text.encode().replace(b"\n", layout.newline)

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """The lines in pieces of at most a block, each with whether it ends its line."""
        with open_source(source) as stream:
            stream.seek(len(layout.head))
            piece = stream.readline(BLOCK)
            while piece:
                following = stream.readline(BLOCK)
                yield piece, piece.endswith(b"\n") or not following
                piece = following

    def records(self, source: Path, layout: Layout) -> Pieces:
        """The lines whole."""
        with open_source(source) as stream:
            stream.seek(len(layout.head))
            yield from ((line, True) for line in stream)

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """The lines without their endings."""
        return (line.rstrip(b"\r\n").decode() for line, _ in self.records(path, layout))

    def row_texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
        """The lines without their endings."""
        return self.values(path, layout, wanted, TEXT)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """The file in blocks; a line ending counts as one character, as Python reads text."""
        with path.open(encoding="utf-8-sig") as stream:
            while block := stream.read(BLOCK):
                yield (block,)
