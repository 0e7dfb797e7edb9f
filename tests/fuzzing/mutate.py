"""Sound inputs made unsound: as bytes, or as the JSON they stand for."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

from tests.fuzzing import hostile

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")


def data(stream: Random, sound: bytes) -> bytes:
    """``sound`` after one to three changes of its bytes; now and then untouched."""
    if stream.random() < 0.03:
        return sound
    for _ in range(stream.choice((1, 1, 1, 2, 3))):
        sound = stream.choice(_CHANGES)(stream, sound)
    return sound[: 4 * hostile.LONG]


def tree(stream: Random, sound: Any) -> Any:
    """A copy of a JSON value after one to three changes within it."""
    changed = copy.deepcopy(sound)
    for _ in range(stream.choice((1, 1, 1, 2, 3))):
        changed = _change_one(stream, changed)
    return changed


def written(stream: Random, value: Any, **options: Any) -> bytes:
    """A value as JSON, in one of the ways it may be written, with hostile raw parts in their places."""
    ascii_only = stream.random() < 0.5
    told = json.dumps(value, ensure_ascii=ascii_only, **options)
    for mark, raw in hostile.RAW.items():
        if mark in told:
            told = told.replace(f'"{mark}"', raw)
    return told.encode("utf-8", "surrogatepass")


def json_file(stream: Random, sound: Any) -> bytes:
    """A JSON file like ``sound``: changed within, or its bytes changed, or both."""
    odds = stream.random()
    value = tree(stream, sound) if odds < 0.75 else sound
    told = written(stream, value, indent=stream.choice((None, 2)))
    return told if odds < 0.6 else data(stream, told)


def json_lines(stream: Random, sound: list[Any]) -> bytes:
    """A file of JSON lines like ``sound``, with lines changed, dropped, doubled or in another order."""
    rows = list(sound)
    odds = stream.random()
    if rows and odds < 0.7:
        place = stream.randrange(len(rows))
        rows[place] = tree(stream, rows[place])
    elif odds < 0.8:
        rows.insert(stream.randrange(len(rows) + 1), hostile.value(stream))
    elif rows and odds < 0.9:
        rows = stream.choices(rows, k=stream.randint(0, len(rows) + 1))
    end = stream.choice((b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b"\r"))
    told = end.join(written(stream, row) for row in rows) + stream.choice((end, b""))
    return data(stream, told) if odds > 0.9 or stream.random() < 0.1 else told


def _change_one(stream: Random, value: Any) -> Any:
    """The value with something exchanged at a place that is drawn on the way down."""
    if isinstance(value, dict) and value and stream.random() < 0.9:
        name = stream.choice(list(value))
        if stream.random() < 0.75:
            value[name] = _change_one(stream, value[name])
        else:
            _change_keys(stream, value, name)
        return value
    if isinstance(value, list) and value and stream.random() < 0.85:
        place = stream.randrange(len(value))
        odds = stream.random()
        if odds < 0.7:
            value[place] = _change_one(stream, value[place])
        elif odds < 0.8:
            del value[place]
        else:
            value.insert(place, copy.deepcopy(stream.choice(value)) if odds < 0.9 else hostile.value(stream))
        return value
    return _other(stream, value)


def _change_keys(stream: Random, value: dict[str, Any], name: str) -> None:
    kind = stream.randrange(4)
    if kind == 0:
        del value[name]
    elif kind == 1:
        value[hostile.text(stream)] = value.pop(name)
    elif kind == 2:
        other = stream.choice(list(value))
        value[name], value[other] = value[other], value[name]
    else:
        value[hostile.text(stream)] = hostile.value(stream)


def _other(stream: Random, value: Any) -> Any:
    """Something else in a leaf's place: often of the same type, so that it comes past the first check."""
    odds = stream.random()
    if isinstance(value, str) and odds < 0.7:
        place = stream.randrange(len(value) + 1)
        return stream.choice(
            (hostile.text(stream), value[:place] + hostile.text(stream) + value[place:], value[:place])
        )
    if isinstance(value, bool) and odds < 0.4:
        return not value
    if isinstance(value, int | float) and odds < 0.6:
        return stream.choice(
            (*hostile.NUMBERS, value + 1, -value, str(value), value / 3 if abs(value) < 1e300 else 1e300)
        )
    return hostile.value(stream)


def _cut(stream: Random, sound: bytes) -> bytes:
    return sound[: stream.randrange(len(sound) + 1)]


def _drop(stream: Random, sound: bytes) -> bytes:
    start, end = _slice(stream, sound)
    return sound[:start] + sound[end:]


def _double(stream: Random, sound: bytes) -> bytes:
    start, end = _slice(stream, sound)
    return sound[:end] + sound[start:end] * stream.choice((1, 1, 2, 30)) + sound[end:]


def _insert(stream: Random, sound: bytes) -> bytes:
    place = stream.randrange(len(sound) + 1)
    return sound[:place] + stream.choice(hostile.PIECES) * stream.choice((1, 1, 1, 3)) + sound[place:]


def _flip(stream: Random, sound: bytes) -> bytes:
    changed = bytearray(sound)
    for _ in range(stream.choice((1, 1, 4, 16)) if changed else 0):
        changed[stream.randrange(len(changed))] = stream.randrange(256)
    return bytes(changed)


def _renumber(stream: Random, sound: bytes) -> bytes:
    """One of its numbers exchanged."""
    found = list(_NUMBER.finditer(sound))
    if not found:
        return _insert(stream, sound)
    place = stream.choice(found)
    return sound[: place.start()] + str(stream.choice(hostile.NUMBERS)).encode() + sound[place.end() :]


def _line_ends(stream: Random, sound: bytes) -> bytes:
    return sound.replace(b"\n", stream.choice((b"\r\n", b"\r", b"\n\r", b"\x00\n", b"\xe2\x80\xa8", b"")))


def _encoded(stream: Random, sound: bytes) -> bytes:
    told = sound.decode("utf-8", "replace")
    return stream.choice((b"\xef\xbb\xbf" + sound, told.encode("utf-16"), told.encode("latin-1", "replace")))


def _whole(stream: Random, sound: bytes) -> bytes:
    """Nothing of it left, or of all of it too much."""
    kind = stream.randrange(6)
    if kind == 0:
        return b""
    if kind == 1:
        return stream.randbytes(stream.choice((1, 8, 300)))
    if kind == 2 and stream.random() < 0.2:
        return sound[:-1] + stream.choice((b"a", b"[", b'"', b" ", b"\x00")) * hostile.LONG + sound[-1:]
    return stream.choice(hostile.PIECES) + sound if kind == 3 else sound + stream.choice(hostile.PIECES)


def _slice(stream: Random, sound: bytes) -> tuple[int, int]:
    """A part of it, whole lines as often as not."""
    start = stream.randrange(len(sound) + 1)
    end = min(len(sound), start + stream.choice((1, 2, 5, 20, 200)))
    if stream.random() < 0.5:
        start = sound.rfind(b"\n", 0, start) + 1
        end = sound.find(b"\n", end) + 1 or len(sound)
    return start, end


_CHANGES: tuple[Callable[[Random, bytes], bytes], ...] = (
    *(_cut, _drop, _drop, _double, _insert, _insert, _insert, _flip, _flip, _renumber, _renumber),
    *(_line_ends, _encoded, _whole),
)
