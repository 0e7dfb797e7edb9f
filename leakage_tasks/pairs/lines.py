"""Pairs from JSON lines: integer lists ``prefix`` and ``suffix``, of any length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from leakage_tasks.core.errors import OptionError
from leakage_tasks.data.jsonl import objects
from leakage_tasks.pairs.raw_pairs import MOST, RawPairs, TokenIds

FIELDS = ("prefix", "suffix")


def holds_pairs(path: Path, text_column: str) -> bool:
    """Whether a file of JSON lines holds pairs rather than texts, by its first row. Raises PlantingError."""
    if path.suffix.lower() != ".jsonl" or not path.is_file():
        return False
    _, first = next(objects(path), (0, {}))
    return all(field in first for field in FIELDS) or (text_column not in first and any(f in first for f in FIELDS))


def read_lines(path: Path) -> list[RawPairs]:
    """The pairs of a file. Raises OptionError naming line and field, PlantingError for what is no JSON."""
    lines: list[int] = []
    columns: dict[str, list[TokenIds]] = {field: [] for field in FIELDS}
    for number, row in objects(path):
        lines.append(number)
        for field in FIELDS:
            columns[field].append(_ids(f"{path}:{number}", field, row))
    return [RawPairs(None, columns["prefix"], columns["suffix"], lambda row: f"{path}:{lines[row]}")]


def _ids(where: str, field: str, row: dict[str, Any]) -> TokenIds:
    if field not in row:
        raise OptionError(f"{where}: field {field!r} is missing: expected a list of token ids")
    value = row[field]
    if not isinstance(value, list) or not value:
        raise OptionError(f"{where}: field {field!r} is {_shown(value)}, expected a list of one token id or more")
    for place, token in enumerate(value):
        if type(token) is not int or not 0 <= token <= MOST:
            raise OptionError(
                f"{where}: field {field!r} holds {_shown(token)} in place {place} (from 0), expected whole numbers "
                "from 0: correct it"
            )
    return np.array(value, dtype=np.int64)


def _shown(value: Any) -> str:
    """A value without what it says, which may be training text."""
    if type(value) is int and not 0 <= value <= MOST:
        return "a number below 0" if value < 0 else f"a number above {MOST}"
    return f"{type(value).__name__} of length {len(value)}" if hasattr(value, "__len__") else type(value).__name__
