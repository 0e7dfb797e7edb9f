"""Text from outside made harmless in Markdown."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_\[\]|~#<>&])")
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;"}


def escaped(text: str) -> str:
    """``text`` as it stands, in a table's cell or in a line: no markup, no link, no HTML, no line end of its own."""
    flat = " ".join(text.split())
    return _SPECIAL.sub(lambda found: _NAMED.get(found[1], f"\\{found[1]}"), flat)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
