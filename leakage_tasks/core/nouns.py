"""Numbers in messages."""

from __future__ import annotations


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
    digits = 2
    while (float(text := f"{p:.{digits}g}") <= level) != (p <= level):
        digits += 1
    return text
