"""Checks of fields in files that other programs wrote, and cleaning of their text for display."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import parse_json, read_text
from leakage_tasks.core.records import WrongField


def load_json(path: str | Path, encoding: str = "utf-8") -> Any:
    """Return the value in a JSON file. Raises ResultsError if it cannot be read, ValueError if it is not JSON."""
    try:
        return parse_json(read_text(path, encoding))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}): check the path") from None


def text(value: Any, name: str) -> str:
    """Return a text as one printable line. Raises WrongField."""
    if not isinstance(value, str):
        raise WrongField(name, "text", value)
    return printable(value)


def is_finite(value: Any) -> bool:
    """Return True for a number that a float can hold."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # A whole number may exceed the largest float, as infinity does; NaN fails the comparison.
    return number and abs(value) <= sys.float_info.max


def printable(words: str) -> str:
    """Return text as one printable line: spaces for white space, U+FFFD for other unprintable characters."""
    if words.isprintable():
        return words
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in words)


def all_printable(value: Any) -> Any:
    """Return a JSON value with :func:`printable` applied to every text in it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [all_printable(item) for item in value]
    if isinstance(value, dict):
        return {printable(name): all_printable(item) for name, item in value.items()}
    return value


def as_words(value: Any) -> str:
    """Return a JSON value for readers: a text as it is, anything else as JSON with sorted keys."""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False)
