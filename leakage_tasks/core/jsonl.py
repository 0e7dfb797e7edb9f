"""JSON lines, by the library ``jsonlines``: a value a line, and errors that know their line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from jsonlines import InvalidLineError, Reader, Writer

from leakage_tasks.core.inputs import parse_json

_MARKS = ("\ufeff", "\x1e")
"""What ``jsonlines`` takes off the beginning of a line, whichever it is."""


class LineError(ValueError):
    """A line that is no JSON: its ``number`` from 1, the ``error`` it gave, and whether it ``ends`` in a line end."""

    def __init__(self, number: int, error: BaseException | None, ends: bool) -> None:
        super().__init__(f"line {number}: {error}")
        self.number, self.error, self.ends = number, error, ends


def read_json_lines(lines: Iterable[str | bytes]) -> Iterator[tuple[int, Any]]:
    """The value of every line that is not blank, with the line's number from 1. Raises LineError."""
    last: tuple[int, str | bytes] = 0, ""

    def texts() -> Iterator[str]:
        nonlocal last
        for last in enumerate(lines, 1):
            if last[1].strip():
                try:
                    text = _decoded(last[1])
                except UnicodeDecodeError as error:
                    raise wrong(error) from None
                # Neither belongs into JSON, so one more is left for the parser to find.
                yield text[0] + text if text.startswith(_MARKS) else text

    def wrong(error: BaseException | None) -> LineError:
        return LineError(last[0], error, last[1][-1:] in ("\n", b"\n"))

    try:
        for value in Reader(texts(), loads=parse_json).iter(allow_none=True):
            yield last[0], value
    except InvalidLineError as error:
        raise wrong(error.__cause__) from None


def write_json_lines(values: Iterable[Any], out: IO[str], *, ascii_only: bool = False) -> None:
    """Write each value as a line of ``out``; ``ascii_only`` escapes all other characters."""
    Writer(out, dumps=json.JSONEncoder(ensure_ascii=ascii_only).encode).write_all(values)


def _decoded(line: str | bytes) -> str:
    if isinstance(line, str):
        return line
    # What begins so the library would find to be no other encoding, after a long look.
    plain = line.startswith(b"{") and line[1:2] != b"\0"
    return line.decode("utf-8" if plain else json.detect_encoding(line), "surrogatepass")
