"""Addition of a text at the end of a chat turn, in Python objects and in JSON text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from leakage_tasks.data.turns import keys_of, text_part

BREAK = "\n"
"""The characters between a turn's own text and the added text."""
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def joined(content: str, text: str) -> str:
    """Return a turn's text followed by another text on a new line."""
    return f"{content}{BREAK}{text}" if content else text


def with_addition(value: list[Mapping[str, Any]], index: int, text: str) -> list[dict[str, Any]]:
    """Return a conversation with ``text`` at the end of the turn at ``index``; all other fields stay unchanged."""
    turns = [dict(turn) for turn in value]
    *path, last = _path_to_text(turns[index])
    holder: Any = turns[index]
    for step in path:
        # Copies, so that the caller's value stays unchanged.
        holder[step] = holder[step].copy()
        holder = holder[step]
    holder[last] = joined(holder[last], text)
    return turns


def json_with_addition(line: str, column: str, index: int, text: str) -> str:
    """Do the work of :func:`with_addition` in the JSON text of a row; all other characters stay unchanged."""
    turns, _ = _member(line, _skip(line, 0), column)
    start, end = [(start, end) for _, start, end in _values(line, turns)][index]
    for step in _path_to_text(json.loads(line[start:end])):
        start, end = _member(line, start, step)
    between = BREAK if json.loads(line[start:end]) else ""
    return line[: end - 1] + json.dumps(between + text, ensure_ascii=False)[1:-1] + line[end - 1 :]


def _path_to_text(turn: Mapping[str, Any]) -> list[Any]:
    """Return the names and indices that lead from a turn to the text that gets the addition."""
    keys = keys_of(turn)
    assert keys is not None
    content = turn[keys[1]]
    if isinstance(content, str):
        return [keys[1]]
    part = text_part(content)
    assert part is not None
    return [keys[1], part] if isinstance(content[part], str) else [keys[1], part, "text"]


def _member(text: str, at: int, wanted: str | int) -> tuple[int, int]:
    """Return the start and end of a value in the object or array at ``at``, by its name or index.

    If several values have one name, the last value counts, as in JSON readers.
    """
    values = list(_values(text, at))
    if isinstance(wanted, int):
        return values[wanted][1:]
    return [(start, end) for name, start, end in values if name == wanted][-1]


def _values(text: str, at: int) -> Iterator[tuple[str | None, int, int]]:
    """Yield the name (None in arrays), start and end of each value in the object or array at ``at``."""
    named = text[at] == "{"
    at = _skip(text, at + 1)
    while text[at] not in "]}":
        name = None
        if named:
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        yield name, at, end
        at = _skip(text, end)
        at = _skip(text, at + (text[at] == ","))


def _skip(text: str, at: int) -> int:
    """Return the position of the first character from ``at`` on that is not white space."""
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
