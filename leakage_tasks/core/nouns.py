"""Numbers of things in messages."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return ``number`` and the singular ``noun``, in its plural (-s, -ies for -y, -es for -s) unless it is 1."""
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"
