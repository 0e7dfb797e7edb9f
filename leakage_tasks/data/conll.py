"""``.conll`` files: a word and its tag a line, a blank line after each utterance, its intent in a comment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from leakage_tasks.data.base import TEXT, Columns, Layout, Points, Row
from leakage_tasks.data.lines import check_rows, open_source, splice
from leakage_tasks.data.tagged import LABEL, TAGS, TaggedFormat
from leakage_tasks.data.utterances import columns_of


class ConllFormat(TaggedFormat):
    """An utterance's block of lines is a row; comments before its words belong to it."""

    name = "conll"

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Parse every utterance. Raises PlantingError naming file and line, or for another column."""
        facts, layout = check_rows(source), super().survey(source, wanted)
        layout.head, layout.newline = facts.head, facts.newline
        return layout

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy line by line; a canary's block has its intent, then words and tags with a tab between."""
        blocks = [(gap, _render(row, layout.newline)) for gap, row in points]
        with open_source(source) as stream, output.open("wb") as out:
            stream.seek(len(layout.head))
            splice(layout.head, pieces(stream), blocks, layout.newline * 2, out)


def pieces(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The lines, each with whether it ends an utterance.

    A last utterance that no blank line follows ends before its last line ending, which is a piece of its own: so the
    two line endings that part it from an inserted block can come between.
    """
    begun = False
    line = stream.readline()
    while line:
        following = stream.readline()
        blank = not line.decode().strip()
        begun = begun or bool(columns_of(line.decode()))
        bare = line if blank or following or not begun else line.rstrip(b"\r\n")
        yield bare, begun and (blank or not following)
        if len(bare) < len(line):
            yield line[len(bare) :], False
        begun = begun and not blank
        line = following


def _render(row: Row, newline: bytes) -> bytes:
    pairs = zip(row[TEXT].split(), row[TAGS].split(), strict=True)
    lines = [f"# intent = {row[LABEL]}", *(f"{word}\t{tag}" for word, tag in pairs)]
    return newline.join(line.encode() for line in lines)
