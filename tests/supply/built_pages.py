"""Fails where a built page of the documentation would ask another host for anything.

``python tests/supply/built_pages.py FOLDER`` prints each such place and exits with 1. Links that a reader may follow
are no requests.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

ELSEWHERE = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
LOADED = {"action", "data", "poster", "src", "srcset"}
"""Attributes whose address a browser asks for by itself; ``href`` too, but for links that readers follow."""
LINKS = {"a", "area"}
NAMES = {"canonical", "license"}
"""Kinds of ``<link>`` that nothing is asked for."""
IN_STYLES = re.compile(r"""(?:url\(|@import)\s*["']?((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class _Requests(HTMLParser):
    """The addresses on other hosts that a page asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        asked = [value for name, value in given.items() if name in LOADED]
        if tag not in LINKS and given.get("rel") not in NAMES:
            asked.append(given.get("href", ""))
        self.found += [value for value in asked if ELSEWHERE.match(value)]
        self.found += IN_STYLES.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        self.found += IN_STYLES.findall(data)


def requests(text: str, kind: str) -> list[str]:
    """Addresses on other hosts that a file of ``kind`` (``.html`` or ``.css``) asks for."""
    if kind == ".css":
        return IN_STYLES.findall(text)
    page = _Requests()
    page.feed(text)
    return page.found


def main(folder: Path) -> int:
    """The exit code: 0 if ``folder`` has pages, none of which asks another host."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".html", ".css")]
    asked = [(path, each) for path in files for each in requests(path.read_text(encoding="utf-8"), path.suffix)]
    for path, each in asked:
        print(f"{path}: asks another host: {each}", file=sys.stderr)
    print(f"{folder}: {len(files)} pages and styles, {len(asked)} requests to another host")
    return int(bool(asked) or not files)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
