"""Text from outside made harmless in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPECIAL = re.compile(r"([\\`*_\[\]|~#<>&$@]|(?<=[a-z]):(?=//)|(?<=www)\.|(?<=mailto):|(?<=xmpp):)", re.IGNORECASE)
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", ":": "&#58;", ".": "&#46;"}


def escaped(text: str) -> str:
    """``text`` as it stands, in a table's cell or in a line: no markup, link, mention, formula, HTML or line end.

    What cannot be seen, or turns the writing's direction, is U+FFFD.
    """
    flat = "".join(each if each.isprintable() else "\ufffd" for each in " ".join(text.split()))
    return _SPECIAL.sub(lambda found: _NAMED.get(found[1], f"\\{found[1]}"), flat)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def bullets(lines: Iterable[str]) -> str:
    """A list of lines that are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)
