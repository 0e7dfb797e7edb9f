"""JSON lines, read and written with ``jsonlines``; errors carry the line number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import IO, Any

from jsonlines import InvalidLineError, Reader, Writer

from leakage_tasks.core.inputs import parse_json

_MARKS = ("\ufeff", "\x1e")
"""Characters that ``jsonlines`` strips from the beginning of a line."""


class LineError(ValueError):
    """Error for a line that is not JSON: its ``number`` from 1, the ``error``, and ``ends``, True if it has a line
    end."""

    def __init__(self, number: int, error: BaseException | None, ends: bool) -> None:
        super().__init__(f"line {number}: {error}")
        self.number, self.error, self.ends = number, error, ends


def read_json_lines(lines: Iterable[str | bytes]) -> Iterator[tuple[int, Any]]:
    """Yield the number (from 1) and value of each line that is not blank. Raises LineError."""
    last: tuple[int, str | bytes] = 0, ""

    def texts() -> Iterator[str]:
        nonlocal last
        for last in enumerate(lines, 1):
            if last[1].strip():
                try:
                    text = _decoded(last[1])
                except UnicodeDecodeError as error:
                    raise wrong(error) from None
                # Such a mark is invalid in JSON. Doubling it leaves a mark for the parser to report.
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
    # Encoding detection is slow and would return UTF-8 for a line that starts like this.
    plain = line.startswith(b"{") and line[1:2] != b"\0"
    return line.decode("utf-8" if plain else json.detect_encoding(line), "surrogatepass")
