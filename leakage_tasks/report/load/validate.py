"""Fields of files that were written elsewhere: what kind of value they hold, and their text made fit to be shown."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import parse_json, read_text

_KINDS = ((bool, "true or false"), (str, "text"), (dict, "an object"), (list, "a list"), (int | float, "a number"))


def load_json(path: str | Path, encoding: str = "utf-8") -> Any:
    """What a file of JSON holds. Raises ResultsError if it cannot be read, ValueError if it holds no JSON."""
    try:
        return parse_json(read_text(path, encoding))
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({error.strerror}): check the path") from None


class WrongField(ValueError):
    """A field that holds something else than expected; ``name`` is the field's, within what was read.

    ``words`` say what was found, if its kind is not what is wrong with it.
    """

    def __init__(self, name: str, expected: str, found: Any, words: str = "") -> None:
        self.name, self.what = name, f"expected {expected}, found {words or kind_of(found)}"
        super().__init__(f"{name}: {self.what}")


def kind_of(value: Any) -> str:
    """What kind of JSON value it is; never the value, which may be private."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "nothing")


def finite(value: Any, name: str) -> float:
    """A number that a float can hold. Raises WrongField."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongField(name, "a number", value)
    try:
        number = float(value)
    except OverflowError:
        raise WrongField(name, "a number below 1e308", value, "a larger one") from None
    if not math.isfinite(number):
        raise WrongField(name, "a finite number", value, "none")
    return number


def text(value: Any, name: str) -> str:
    """A text as one line that can be shown. Raises WrongField."""
    if not isinstance(value, str):
        raise WrongField(name, "text", value)
    return printable(value)


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    """A JSON object. Raises WrongField."""
    if not isinstance(value, dict):
        raise WrongField(name, "an object", value)
    return value


def is_finite(value: Any) -> bool:
    """Whether it is a number that a float can hold."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Infinity is larger, and so may a whole number be; what is no number is not.
    return number and abs(value) <= sys.float_info.max


def printable(words: str) -> str:
    """Words as one line of characters that can be shown: blanks for white space, U+FFFD for all that cannot be."""
    if words.isprintable():
        return words
    return "".join(word if word.isprintable() else " " if word.isspace() else "\ufffd" for word in words)


def all_printable(value: Any) -> Any:
    """JSON with :func:`printable` done to every text in it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [all_printable(each) for each in value]
    if isinstance(value, dict):
        return {printable(name): all_printable(each) for name, each in value.items()}
    return value
