"""Options of ``leakage canaries`` that are several things in one text."""

from __future__ import annotations

from leakage_tasks.core.errors import OptionError


def numbers(option: str, text: str) -> list[int]:
    """Whole numbers with commas between. Raises OptionError naming ``option``."""
    try:
        return [int(item) for item in text.split(",")]
    except ValueError:
        raise OptionError(f"{option} is {text!r}: give whole numbers with commas between, such as 1,10") from None


def items(text: str | None) -> list[str] | None:
    """Words with commas between, None for None."""
    return None if text is None else [item.strip() for item in text.split(",") if item.strip()]


def supporting_of(text: str) -> str | int:
    """``all``, ``one``, ``none`` or a number of classes. Raises OptionError."""
    if text in ("all", "one", "none"):
        return text
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"--supporting is {text!r}: give all, one, none or a number of classes") from None
