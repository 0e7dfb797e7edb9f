"""Plain text, and what all formats made of UTF-8 lines share: checking and copying, in bytes, as a stream."""

from __future__ import annotations

import codecs
import hashlib
import io
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import check_file
from leakage_tasks.data.base import Format, register_format
from leakage_tasks.data.chat import Turns
from leakage_tasks.data.layout import TEXT, Columns, Layout, Places, Points, Row, lost_rows
from leakage_tasks.data.packed import codec_of, open_output, open_packed

BLOCK = 1 << 20
BOM = codecs.BOM_UTF8
LARGEST_ROW = 256 << 20
"""Bytes of the longest row that is read at once."""
Pieces = Iterable[tuple[bytes, bool]]
"""Bytes of a file, each with whether they end a row."""


@dataclass(frozen=True)
class TextFacts:
    """``rows``: lines, a last one without a line ending included. ``newline``: the first line's ending.

    ``head``: what stands before the first row.

    ``longest``: bytes of the longest line, to the block; 0 where all are shorter than a block.

    ``unpacked``: of a packed file, the SHA-256 of what it holds.

    ``characters``: those after the head, a line ending being one, as Python reads text.
    """

    rows: int
    newline: bytes
    head: bytes
    longest: int = 0
    unpacked: str | None = None
    characters: int = 0


def check_utf8(path: Path) -> TextFacts:
    """Read a file through, in constant memory. Raises PlantingError naming line and byte if it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, read, newline, head, last = 0, 0, b"", b"", b""
    unbroken = longest = characters = 0
    digest = hashlib.sha256() if codec_of(path) else None
    with open_source(path) as source:
        while block := source.read(BLOCK):
            characters += _decode(decoder, block, path, lines, read)
            if b"\r" in block or last == b"\r":
                characters -= block.count(b"\r\n") + (last == b"\r" and block.startswith(b"\n"))
            if digest is not None:
                digest.update(block)
            if not read and block.startswith(BOM):
                head = BOM
            if not newline and (place := block.find(b"\n")) >= 0:
                before = block[place - 1 : place] if place else last
                newline = b"\r\n" if before == b"\r" else b"\n"
            breaks = block.count(b"\n")
            unbroken = 0 if breaks else unbroken + len(block)
            longest = max(longest, unbroken)
            lines += breaks
            read += len(block)
            last = block[-1:]
        _decode(decoder, b"", path, lines, read)
    unfinished = read > len(head) and last != b"\n"
    unpacked = digest.hexdigest() if digest is not None else None
    return TextFacts(lines + unfinished, newline or b"\n", head, longest, unpacked, characters - bool(head))


def check_rows(path: Path) -> TextFacts:
    """As :func:`check_utf8`, for files whose rows are read whole. Raises PlantingError for a line of 256 MiB too."""
    facts = check_utf8(path)
    if facts.longest >= LARGEST_ROW:
        raise PlantingError(f"{path}: has a line of {facts.longest >> 20:,} MiB, expected less than 256: split the row")
    return facts


def outline_of(path: Path) -> Layout:
    """A file's head and line ending alone, for which no more of it is read than that takes."""
    with open_source(path) as source:
        before, piece = b"", source.readline(BLOCK)
        head = BOM if piece.startswith(BOM) else b""
        while piece and not piece.endswith(b"\n"):
            before, piece = piece, source.readline(BLOCK)
    newline = b"\r\n" if (before[-1:] + piece).endswith(b"\r\n") else b"\n"
    return Layout(0, (), TEXT, head=head, newline=newline)


def open_source(path: Path) -> BinaryIO:
    """Open a dataset for reading, unpacked where its name says so. Raises PlantingError if it cannot be read."""
    codec = codec_of(path)
    try:
        check_file(path)
        return path.open("rb", BLOCK) if codec is None else open_packed(path, codec)
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, lines: int, read: int) -> int:
    """How many characters a block holds."""
    pending = len(decoder.getstate()[0])
    try:
        return len(decoder.decode(block, final=not block))
    except UnicodeDecodeError as error:
        start = error.start - pending
        line = lines + block.count(b"\n", 0, max(0, start)) + 1
        raise PlantingError(
            f"{path}: not UTF-8 at byte {read + start} (line {line}): save the file as UTF-8 first"
        ) from None


class LineFormat(Format):
    """A file of lines, in which rows are found and copied byte for byte."""

    packable = exact = True
    line_ends: ClassVar[int] = 1
    """Line endings after an inserted row."""

    @abstractmethod
    def render(self, row: Row, layout: Layout) -> bytes:
        """A row as it stands in the file, without the line ending after it."""

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """What the file holds after its head, each piece with whether it ends a row: all but blank lines do."""
        with open_source(source) as stream:
            stream.read(len(layout.head))
            yield from ((line, not line.isspace()) for line in stream)

    def records(self, source: Path, layout: Layout) -> Pieces:
        """As :meth:`pieces`, but each row in one."""
        return self.pieces(source, layout)

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy piece by piece; where the source's last line has no line ending, the last line of the copy has none."""
        lines = {gap: [self.render(row, layout) for _, row in here] for gap, here in groupby(points, itemgetter(0))}
        head, newline, row = layout.head, layout.newline * self.line_ends, 0
        unfinished = bool(head) and head != BOM and not head.endswith((b"\n", b"\r"))
        with open_output(output) as out:
            out.write(head)
            out.writelines(newline + line if unfinished else line + newline for line in lines.pop(row, ()))
            for piece, ends_row in self.pieces(source, layout):
                out.write(piece)
                row += ends_row
                if ends_row and row in lines:
                    # A carriage return ends a line only where all lines end with one.
                    unfinished = not piece.endswith((b"\n", newline))
                    out.writelines(newline + line if unfinished else line + newline for line in lines.pop(row))
        if lines:
            raise lost_rows(row)

    def write_back(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy record by record; where the last row goes and had no line ending, what is left has none either."""
        ending, row = layout.newline * self.line_ends, 0
        held = layout.head
        with open_output(output) as out:
            for record, is_row in self.records(source, layout):
                if is_row and row in dropped:
                    unfinished = not record.endswith((b"\n", layout.newline))
                    held = held.removesuffix(ending) if unfinished else held
                else:
                    out.write(held)
                    held = record
                row += is_row
            out.write(held)

    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy record by record."""
        row = 0
        with open_output(output) as out:
            out.write(layout.head)
            for record, is_row in self.records(source, layout):
                if not (is_row and row in dropped):
                    out.write(record)
                row += is_row


@register_format("txt")
class TextFormat(LineFormat):
    """``.txt``: no columns, no labels."""

    name = "text"
    running = True
    labelled = False

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Count the lines. Raises PlantingError if columns are asked for or the file is not UTF-8."""
        if wanted.label is not None or wanted.source is not None or wanted.text != TEXT:
            asked = wanted.label or wanted.source or wanted.text
            raise PlantingError(f"{source}: a text file has no column {asked!r}: leave the column options out")
        facts = check_utf8(source)
        found = Layout(facts.rows, (TEXT,), TEXT, head=facts.head, newline=facts.newline, characters=facts.characters)
        found.unpacked_sha256 = facts.unpacked
        return found

    def outline(self, source: Path, wanted: Columns) -> Layout:
        """How the file begins."""
        return outline_of(source)

    def render(self, row: Row, layout: Layout) -> bytes:
        """The text; a line break in a template becomes the file's own."""
        text: str = row[TEXT]
        if "\r" in text:
            raise PlantingError(
                f"a canary holds a carriage return ({text!r}), which a text file cannot keep: use .jsonl"
            )
        return text.encode().replace(b"\n", layout.newline)

    def height(self, row: Row) -> int:
        """Its lines."""
        return 1 + str(row[TEXT]).count("\n")

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """The lines in pieces of at most a block, each with whether it ends its line."""
        with open_source(source) as stream:
            stream.read(len(layout.head))
            piece = stream.readline(BLOCK)
            while piece:
                following = stream.readline(BLOCK)
                yield piece, piece.endswith(b"\n") or not following
                piece = following

    def records(self, source: Path, layout: Layout) -> Pieces:
        """The lines whole."""
        with open_source(source) as stream:
            stream.read(len(layout.head))
            yield from ((line, True) for line in stream)

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """The lines without their endings."""
        return (line.rstrip(b"\r\n").decode() for line, _ in self.records(path, layout))

    def row_texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
        """The lines without their endings."""
        return self.values(path, layout, wanted, TEXT)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """The file in blocks; a line ending counts as one character, as Python reads text."""
        with io.TextIOWrapper(open_source(path), encoding="utf-8-sig") as stream:
            while block := stream.read(BLOCK):
                yield (block,)
