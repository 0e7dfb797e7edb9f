"""Files of columns that are valid and unusual: names that repeat, are empty or missing, and rows of other widths."""

from __future__ import annotations

import csv
import io
import json
from random import Random

_NAMES = ("id", "id", "", "", "label", "source", "Text", "text")
_KEYS = ("text", "label", "n", "source", "")


def values(stream: Random, delimiter: str) -> bytes:
    """Return a table of values: its header draws names with replacement, a row may be shorter or longer."""
    header = stream.choices(_NAMES, k=stream.randint(1, 5))
    if "text" not in header and stream.random() < 0.9:
        header[stream.randrange(len(header))] = "text"
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=stream.choice(("\n", "\r\n")))
    writer.writerow(header)
    widths = (0, -1, 1) if stream.random() < 0.1 else (0,)
    for row in range(stream.randint(0, 4)):
        width = len(header) + stream.choice(widths)
        writer.writerow([f"{stream.choice(('joy', 'sad', 'a, b', ''))}{row}" for _ in range(max(1, width))])
    return out.getvalue().encode()


def lines(stream: Random) -> bytes:
    """Return JSON lines of which each has some keys, and some keys twice."""
    rows = []
    for row in range(stream.randint(1, 4)):
        keys = ["text"] * (row == 0) + stream.choices(_KEYS, k=stream.randint(0, 5))
        rows.append("{" + ", ".join(f"{json.dumps(key)}: {json.dumps(f'{key} {row}')}" for key in keys) + "}\n")
    return "".join(rows).encode()
