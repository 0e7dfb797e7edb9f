"""Plain text, and the common base of formats of UTF-8 lines: checks and copies in bytes, as a stream."""

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
"""Upper limit on the bytes of a row that is read at once."""
Pieces = Iterable[tuple[bytes, bool]]
"""Pieces of a file in bytes, each with a flag that is True if the piece ends a row."""


@dataclass(frozen=True)
class TextFacts:
    """Facts about a UTF-8 file of lines.

    ``rows`` counts lines, including a last line without a line ending; ``newline`` is the first line's ending. ``head``
    holds the bytes before the first row. ``longest`` is the length in bytes of the longest line, rounded to blocks; 0
    if all lines are shorter than a block. ``unpacked`` is the SHA-256 of a compressed file's decompressed content.
    ``characters`` counts the characters after the head; a line ending counts as one character, as in Python.
    """

    rows: int
    newline: bytes
    head: bytes
    longest: int = 0
    unpacked: str | None = None
    characters: int = 0


def check_utf8(path: Path) -> TextFacts:
    """Read a whole file in constant memory. Raises PlantingError, which names line and byte, if it is not UTF-8."""
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
            if not newline and (index := block.find(b"\n")) >= 0:
                before = block[index - 1 : index] if index else last
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
    """Check a file whose rows are read at once. Raises as :func:`check_utf8`, and for a line of 256 MiB or more."""
    facts = check_utf8(path)
    if facts.longest >= LARGEST_ROW:
        raise PlantingError(f"{path}: has a line of {facts.longest >> 20:,} MiB, expected less than 256: split the row")
    return facts


def outline_of(path: Path) -> Layout:
    """Return a file's head and line ending; only the first line is read."""
    with open_source(path) as source:
        before, piece = b"", source.readline(BLOCK)
        head = BOM if piece.startswith(BOM) else b""
        while piece and not piece.endswith(b"\n"):
            before, piece = piece, source.readline(BLOCK)
    newline = b"\r\n" if (before[-1:] + piece).endswith(b"\r\n") else b"\n"
    return Layout(0, (), TEXT, head=head, newline=newline)


def open_source(path: Path) -> BinaryIO:
    """Open a dataset for reading, decompressed if its suffix requires it. Raises PlantingError if it cannot be read."""
    codec = codec_of(path)
    try:
        check_file(path)
        return path.open("rb", BLOCK) if codec is None else open_packed(path, codec)
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, lines: int, read: int) -> int:
    """Decode a block and return its number of characters. Raises PlantingError if it is not UTF-8."""
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
    """A format of files of lines, in which rows are copied byte for byte."""

    packable = exact = True
    line_ends: ClassVar[int] = 1
    """The number of line endings after an inserted row."""
    breaks: ClassVar[tuple[bytes, ...]] = (b"\n",)
    """The endings of a piece that ends a line; the last piece of a file may lack them."""

    @abstractmethod
    def render(self, row: Row, layout: Layout) -> bytes:
        """Return the bytes of a row without the line ending after it."""

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """Yield the pieces of a file after its head; the flag is True if a piece ends a row, and False for blank
        lines."""
        with open_source(source) as stream:
            stream.read(len(layout.head))
            yield from ((line, not line.isspace()) for line in stream)

    def records(self, source: Path, layout: Layout) -> Pieces:
        """Yield pieces as :meth:`pieces` does, with each row in one piece."""
        return self.pieces(source, layout)

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy piece by piece. The last line of the copy has a line ending only if the last line of the source has
        one."""
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
                    unfinished = not piece.endswith(self.breaks)
                    out.writelines(newline + line if unfinished else line + newline for line in lines.pop(row))
        if lines:
            raise lost_rows(row)

    def write_back(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy record by record. If the removed last row had no line ending, the new last row loses its line ending."""
        ending, row = layout.newline * self.line_ends, 0
        held = layout.head
        with open_output(output) as out:
            for record, is_row in self.records(source, layout):
                if is_row and row in dropped:
                    unfinished = not record.endswith(self.breaks)
                    held = held.removesuffix(ending) if unfinished else held
                else:
                    out.write(held)
                    held = record
                row += is_row
            out.write(held)

    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy record by record without the rows ``dropped``."""
        row = 0
        with open_output(output) as out:
            out.write(layout.head)
            for record, is_row in self.records(source, layout):
                if not (is_row and row in dropped):
                    out.write(record)
                row += is_row


@register_format("txt")
class TextFormat(LineFormat):
    """The format of ``.txt`` files, which have no columns and no labels."""

    name = "text"
    running = True
    labelled = False

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Count the lines. Raises PlantingError if columns are requested or the file is not UTF-8."""
        if wanted.label is not None or wanted.source is not None or wanted.text != TEXT:
            column = wanted.label or wanted.source or wanted.text
            raise PlantingError(f"{source}: a text file has no column {column!r}: leave the column options out")
        facts = check_utf8(source)
        layout = Layout(facts.rows, (TEXT,), TEXT, head=facts.head, newline=facts.newline, characters=facts.characters)
        layout.unpacked_sha256 = facts.unpacked
        return layout

    def outline(self, source: Path, wanted: Columns) -> Layout:
        """Return a layout with only the file's head and line ending."""
        return outline_of(source)

    def render(self, row: Row, layout: Layout) -> bytes:
        """Return the text, with line breaks in the file's style."""
        text: str = row[TEXT]
        if "\r" in text:
            raise PlantingError(
                f"a canary holds a carriage return ({text!r}), which a text file cannot keep: use .jsonl"
            )
        return text.encode().replace(b"\n", layout.newline)

    def height(self, row: Row) -> int:
        """Return the number of the text's lines."""
        return 1 + str(row[TEXT]).count("\n")

    def pieces(self, source: Path, layout: Layout) -> Pieces:
        """Yield the lines in pieces of at most a block; the flag is True if a piece ends its line."""
        with open_source(source) as stream:
            stream.read(len(layout.head))
            piece = stream.readline(BLOCK)
            while piece:
                following = stream.readline(BLOCK)
                yield piece, piece.endswith(b"\n") or not following
                piece = following

    def records(self, source: Path, layout: Layout) -> Pieces:
        """Yield whole lines."""
        with open_source(source) as stream:
            stream.read(len(layout.head))
            yield from ((line, True) for line in stream)

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """Yield the lines without their endings."""
        return (line.rstrip(b"\r\n").decode() for line, _ in self.records(path, layout))

    def row_texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
        """Yield the lines without their endings."""
        return self.values(path, layout, wanted, TEXT)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """Yield the file in blocks; a line ending counts as one character, as in Python."""
        with io.TextIOWrapper(open_source(path), encoding="utf-8-sig") as stream:
            while block := stream.read(BLOCK):
                yield (block,)
