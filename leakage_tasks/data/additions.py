"""Turns with another text at their end, in Python and in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from leakage_tasks.data.turns import keys_of, text_part

BREAK = "\n"
"""The characters between a turn's own text and the text that is added to it."""
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def joined(content: str, text: str) -> str:
    """Return a turn's text with another on a line of its own at its end."""
    return f"{content}{BREAK}{text}" if content else text


def with_addition(value: list[Mapping[str, Any]], place: int, text: str) -> list[dict[str, Any]]:
    """Return a conversation with ``text`` at the end of its turn at ``place``; all other fields are as before."""
    turns = [dict(turn) for turn in value]
    *way, last = _way_to_text(turns[place])
    holder: Any = turns[place]
    for step in way:
        # Copies, since the caller's own value stays as it is.
        holder[step] = holder[step].copy()
        holder = holder[step]
    holder[last] = joined(holder[last], text)
    return turns


def json_with_addition(line: str, column: str, place: int, text: str) -> str:
    """Do as :func:`with_addition` in the JSON of a row, of which no other character changes."""
    turns, _ = _member(line, _skip(line, 0), column)
    start, end = [(start, end) for _, start, end in _values(line, turns)][place]
    for step in _way_to_text(json.loads(line[start:end])):
        start, end = _member(line, start, step)
    between = BREAK if json.loads(line[start:end]) else ""
    return line[: end - 1] + json.dumps(between + text, ensure_ascii=False)[1:-1] + line[end - 1 :]


def _way_to_text(turn: Mapping[str, Any]) -> list[Any]:
    """Return the names and places that lead from a turn to the text that is added to."""
    keys = keys_of(turn)
    assert keys is not None
    content = turn[keys[1]]
    if isinstance(content, str):
        return [keys[1]]
    part = text_part(content)
    assert part is not None
    return [keys[1], part] if isinstance(content[part], str) else [keys[1], part, "text"]


def _member(text: str, at: int, wanted: str | int) -> tuple[int, int]:
    """Return where a value of the object or array at ``at`` begins and ends, by its name or place.

    Of several values of one name the last counts, which is the one that JSON readers take.
    """
    values = list(_values(text, at))
    if isinstance(wanted, int):
        return values[wanted][1:]
    return [(start, end) for name, start, end in values if name == wanted][-1]


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
