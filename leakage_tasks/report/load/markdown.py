"""Escaping of external text for Markdown, and small Markdown builders."""

from __future__ import annotations

import re
from collections.abc import Iterable

_SPECIAL = re.compile(r"([\\`*_\[\]|~#<>&$@]|(?<=[a-z]):(?=//)|(?<=www)\.|(?<=mailto):|(?<=xmpp):)", re.IGNORECASE)
_NAMED = {"<": "&lt;", ">": "&gt;", "&": "&amp;", "@": "&#64;", ":": "&#58;", ".": "&#46;"}


def escaped(text: str) -> str:
    """Escape ``text`` for a table cell or a line: no markup, link, mention, formula, HTML or line end remains.

    Invisible characters and characters that change the writing direction become U+FFFD.
    """
    flat = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))
    return _SPECIAL.sub(lambda match: _NAMED.get(match[1], f"\\{match[1]}"), flat)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table; all cells are already Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def bullets(lines: Iterable[str]) -> str:
    """Return a bullet list; all lines are already Markdown."""
    return "\n".join(f"- {line}" for line in lines)
