"""JSON lines are what a loop over ``json.loads`` would read and ``json.dumps`` write, and errors know their line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leakage_tasks.core.inputs import TOO_DEEP, parse_json
from leakage_tasks.core.jsonl import LineError, read_json_lines, write_json_lines

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
PIECES = st.sampled_from(
    [
        "{}",
        '{"a": 1}',
        "null",
        "[",
        '"\ufeff"',
        "\ufeff",
        "\x1e",
        " ",
        "\t",
        "1",
        "NaN",
        "1" * 5000,
        "[" * 100_000,
        "\ud800",
    ]
)


def by_hand(lines: list[Any]) -> tuple[list[tuple[int, Any]], int | None, str | None]:
    """What a loop reads, the line at which it stops, and why."""
    found = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            # Bytes decoded first: json.loads says less of a second byte order mark in bytes than in text.
            text = line if isinstance(line, str) else line.decode(json.detect_encoding(line), "surrogatepass")
            found.append((number, parse_json(text)))
        except ValueError as error:
            return found, number, str(error)
    return found, None, None


def by_library(lines: list[Any]) -> tuple[list[tuple[int, Any]], int | None, str | None]:
    found = []
    try:
        for each in read_json_lines(lines):
            found.append(each)
    except LineError as error:
        return found, error.number, str(error.error)
    return found, None, None


@given(st.lists(st.lists(PIECES, max_size=3).map("".join)))
def test_lines_are_read_as_by_hand(lines: list[str]) -> None:
    assert repr(by_library(lines)) == repr(by_hand(lines))


@given(st.lists(st.lists(PIECES, max_size=3).map("".join) | st.text()), st.sampled_from(["utf-8", "utf-16-be"]))
@example(["\ufeff\ufeff"], "utf-8")
def test_bytes_are_read_as_by_hand(lines: list[str], encoding: str) -> None:
    raw = [line.encode(encoding, "surrogatepass") for line in lines]
    assert repr(by_library(raw)) == repr(by_hand(raw))


@given(st.lists(st.binary(max_size=6)))
def test_any_bytes_are_read_as_by_hand(lines: list[bytes]) -> None:
    assert repr(by_library(lines)) == repr(by_hand(lines))


@given(st.lists(VALUES), st.booleans())
def test_lines_are_written_as_by_hand_and_read_back(values: list[Any], ascii_only: bool) -> None:
    out = io.StringIO()
    write_json_lines(values, out, ascii_only=ascii_only)
    assert out.getvalue() == "".join(json.dumps(value, ensure_ascii=ascii_only) + "\n" for value in values)
    assert [value for _, value in read_json_lines(out.getvalue().split("\n"))] == values


@pytest.mark.parametrize(
    ("line", "why", "ends"),
    [
        ('{"a":\n', "Expecting value: line 2 column 1 (char 6)", True),
        (b'{"a":', "Expecting value: line 1 column 6 (char 5)", False),
        ("[" * 100_000, TOO_DEEP, False),
        ("\ufeff{}\n", "Unexpected UTF-8 BOM (decode using utf-8-sig): line 1 column 1 (char 0)", True),
    ],
)
def test_an_error_knows_its_line(line: str | bytes, why: str, ends: bool) -> None:
    with pytest.raises(LineError) as caught:
        list(read_json_lines(["{}\n", "\n", line]))
    assert (caught.value.number, str(caught.value.error), caught.value.ends) == (3, why, ends)
