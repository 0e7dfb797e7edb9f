"""What the formats made of UTF-8 lines share: checking and splicing, in bytes, as a stream."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import check_file

BLOCK = 1 << 20
BOM = codecs.BOM_UTF8
LARGEST_ROW = 256 << 20
"""Bytes of the longest row that is read at once."""


@dataclass(frozen=True)
class TextFacts:
    """``rows``: lines, a last one without a line ending included. ``newline``: the first line's ending.

    ``longest``: bytes of the longest line, to the block; 0 where all are shorter than a block.
    """

    rows: int
    newline: bytes
    bom: bool
    longest: int = 0

    @property
    def head(self) -> bytes:
        """What stands before the first row."""
        return BOM if self.bom else b""


def check_utf8(path: Path) -> TextFacts:
    """Read a file through, in constant memory. Raises PlantingError naming line and byte if it is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines, read, newline, bom, last = 0, 0, b"", False, b""
    unbroken = longest = 0
    with open_source(path) as source:
        while block := source.read(BLOCK):
            _decode(decoder, block, path, lines, read)
            if not read:
                bom = block.startswith(BOM)
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
    unfinished = read > len(BOM) * bom and last != b"\n"
    return TextFacts(lines + unfinished, newline or b"\n", bom, longest)


def check_rows(path: Path) -> TextFacts:
    """As :func:`check_utf8`, for files whose rows are read whole. Raises PlantingError for a line of 256 MiB too."""
    facts = check_utf8(path)
    if facts.longest >= LARGEST_ROW:
        raise PlantingError(f"{path}: has a line of {facts.longest >> 20:,} MiB, expected less than 256: split the row")
    return facts


def open_source(path: Path) -> BinaryIO:
    """Open a dataset for reading. Raises PlantingError if it cannot be read."""
    try:
        check_file(path)
        return path.open("rb")
    except OSError as error:
        raise PlantingError(f"{path}: cannot be read ({error.strerror}): check the path") from None


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, lines: int, read: int) -> None:
    pending = len(decoder.getstate()[0])
    try:
        decoder.decode(block, final=not block)
    except UnicodeDecodeError as error:
        start = error.start - pending
        line = lines + block.count(b"\n", 0, max(0, start)) + 1
        raise PlantingError(
            f"{path}: not UTF-8 at byte {read + start} (line {line}): save the file as UTF-8 first"
        ) from None


def splice(
    head: bytes,
    pieces: Iterable[tuple[bytes, bool]],
    points: Sequence[tuple[int, bytes]],
    newline: bytes,
    output: BinaryIO,
) -> None:
    """Write ``head``, then ``pieces`` with the lines of ``points`` in their gaps.

    A piece comes with whether it ends a row. A source whose last line has no line ending gets a planted
    file whose last line has none.
    """
    queue = iter(points)
    gap, line = next(queue, (-1, b""))
    row = 0
    output.write(head)
    unfinished = bool(head) and head != BOM and not head.endswith((b"\n", b"\r"))

    def fill() -> None:
        nonlocal gap, line
        while gap == row:
            output.write(newline + line if unfinished else line + newline)
            gap, line = next(queue, (-1, b""))

    fill()
    for piece, ends_row in pieces:
        output.write(piece)
        if ends_row:
            row += 1
            if gap == row:
                # A carriage return ends a line only where all lines end with one.
                unfinished = not piece.endswith((b"\n", newline))
                fill()
    if gap >= 0:
        raise PlantingError(f"the input lost rows while it was being read ({row} left): plant when nobody writes to it")
