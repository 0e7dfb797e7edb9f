"""Numbers in messages."""

from __future__ import annotations

_ROUNDING = 1e-12
"""Largest error of a p-value that an exact test computes, such as 0.05000000000000001 for 1 in 20."""


def counted(number: int, noun: str) -> str:
    """Return ``number`` and the singular ``noun``, in its plural (-s, -ies for -y, -es for -s) unless it is 1."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def percent(share: float) -> str:
    """Format a share in percent with two significant digits, three from 10 %."""
    return f"{100 * share:.2g} %" if share < 0.1 else f"{100 * share:.3g} %"


def p_text(p: float, level: float = 0.05) -> str:
    """Return a p-value with two significant digits, or with more if these two would be on the other side of ``level``.

    So "not significant" never stands next to p = 0.05, if the test is at 5 %.
    """
    digits, limit = 2, level + _ROUNDING
    while (float(text := f"{p:.{digits}g}") <= limit) != (p <= limit):
        digits += 1
    return text
