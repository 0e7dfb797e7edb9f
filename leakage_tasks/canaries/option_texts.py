"""Parsers for options of ``leakage canaries`` that hold several values in one text."""

from __future__ import annotations

from leakage_tasks.core.errors import OptionError

SUPPORTING = ("all", "one", "none")
"""Values of ``--supporting`` other than numbers."""


def numbers(option: str, text: str) -> list[int]:
    """Parse whole numbers separated by commas. Raises OptionError, which names ``option``."""
    try:
        # int() also accepts the digits of other scripts.
        return [int(item.encode("ascii")) for item in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} is {text!r}: give whole numbers with commas between, such as 1,10") from None


def items(text: str | None) -> list[str] | None:
    """Split a text at commas; None stays None."""
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def supporting_of(text: str) -> str | int:
    """Parse a value of ``SUPPORTING`` or a number of classes. Raises OptionError for any other text."""
    if text in SUPPORTING:
        return text
    try:
        return int(text)
    except ValueError:
        raise supporting_error(text) from None


def supporting_number(supporting: str | int, others: int) -> int | None:
    """Return the number of supporting canaries of each canary; None for an unknown word.

    ``others`` is the number of classes other than the canary's.
    """
    words = {"all": max(1, others), "one": 1, "none": 0}
    return words.get(supporting) if isinstance(supporting, str) else supporting


def supporting_error(value: str | int) -> OptionError:
    """Return the error for an invalid ``--supporting``."""
    return OptionError(f"--supporting is {value!r}: give {', '.join(SUPPORTING)} or a number of classes")
