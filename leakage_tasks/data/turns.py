"""Chat turns that get another text at their end: which can, and how they read with it, in Python and in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from leakage_tasks.data.chat import Role

BREAK = "\n"
"""What parts a text from the turn it is put into."""
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def turns_by(value: Any, role: Role) -> list[int]:
    """Which turns of a conversation are that role's and hold text: calls of tools alone hold none."""
    return [
        place
        for place, turn in enumerate(value or ())
        if isinstance(turn, Mapping) and turn.get("role") == role and isinstance(turn.get("content"), str)
    ]


def joined(content: str, text: str) -> str:
    """A turn's text with another on a line of its own at its end."""
    return f"{content}{BREAK}{text}" if content else text


def with_addition(value: list[Mapping[str, Any]], place: int, text: str) -> list[dict[str, Any]]:
    """A conversation with ``text`` at the end of its turn at ``place``; the other fields of all turns are as before."""
    turns = [dict(turn) for turn in value]
    turns[place]["content"] = joined(turns[place]["content"], text)
    return turns


def json_with_addition(line: str, column: str, place: int, text: str) -> str:
    """As :func:`with_addition` in the JSON of a row, of which no other character changes."""
    turns, _ = _member(line, _skip(line, 0), column)
    turn = [start for _, start, _ in _values(line, turns)][place]
    start, end = _member(line, turn, "content")
    between = BREAK if json.loads(line[start:end]) else ""
    return line[: end - 1] + json.dumps(between + text, ensure_ascii=False)[1:-1] + line[end - 1 :]


def _member(text: str, at: int, wanted: str) -> tuple[int, int]:
    """Where the value of that name begins and ends in the object at ``at``; of several the last, which is read."""
    return [(start, end) for name, start, end in _values(text, at) if name == wanted][-1]


def _values(text: str, at: int) -> Iterator[tuple[str | None, int, int]]:
    """Where each value of the object or array at ``at`` begins and ends, with its name if it has one."""
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
    """The first character from ``at`` on that is no white space."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
