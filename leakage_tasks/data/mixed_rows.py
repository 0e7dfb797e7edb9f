"""Rows whose text is in other usual columns than that of the first row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.layout import CHATS, TEXT, Layout
from leakage_tasks.data.shapes import SHAPES, RowShape
from leakage_tasks.data.turns import looks_like_chat


def check_alike(source: Path, number: int, row: Mapping[str, Any], layout: Layout) -> None:
    """Raise PlantingError if a row, the line ``number`` of ``source``, has text in other columns than the first row."""
    shape = layout.shape
    expected = (layout.text,) if shape is None else shape.answers
    if any(row.get(name) is not None for name in expected):
        return
    usual = [(TEXT,), *((name,) for name in CHATS), *map(_columns, SHAPES)]
    other = next((names for names in usual if all(_has_text(name, row.get(name)) for name in names)), None)
    if other is not None:
        first = expected if shape is None else _columns(shape)
        raise PlantingError(
            subject=f"{source}:{number}",
            problem=f"has {_named(other)} in place of {_named(first)}, the "
            f"{'columns' if len(first) > 1 else 'column'} of the first row",
            remedy="write all rows alike, or name the column to read with {}",
            option="text_column",
        )


def _columns(shape: RowShape) -> tuple[str, ...]:
    return (*(() if shape.prompt_column is None else (shape.prompt_column,)), *shape.answers)


def _has_text(column: str, value: Any) -> bool:
    is_text = isinstance(value, str) and bool(value.strip()) and column not in CHATS
    return is_text or (bool(value) and looks_like_chat(value))


def _named(columns: Sequence[str]) -> str:
    return " and ".join(map(repr, columns))
