"""The class of every row, by the name a manifest or a model would use for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakage_tasks.data import Columns, Layout, format_of
from leakage_tasks.data.commas import CommaFormat
from leakage_tasks.data.jsonl import objects
from leakage_tasks.data.parquet import column_values
from leakage_tasks.data.saved import _choose_split, _load
from leakage_tasks.data.saved import _values as _saved_values
from leakage_tasks.data.tagged import TaggedFormat
from leakage_tasks.data.utterances import utterances


def labels_of(path: Path, layout: Layout, wanted: Columns) -> Iterator[str | None]:
    """The label of every row, in the rows' order; None where there is none.

    ``layout`` is what the format's ``survey`` found with a label column. Numbers of a ClassLabel column become the
    names of their classes. Raises PlantingError as the formats do.
    """
    # A ClassLabel column's classes are known by number too; their names come later and win.
    names = {value: name for name, value in layout.labels.items()}
    for value in _values(path, layout, wanted):
        yield None if value is None or value == "" else names.get(value, str(value))


def _values(path: Path, layout: Layout, wanted: Columns) -> Iterator[Any]:
    column = layout.label or ""
    if isinstance(format_of(path), TaggedFormat):
        yield from (utterance.intent for utterance in utterances(path))
    elif path.is_dir():
        yield from _saved_values(path, _choose_split(path, _load(path), wanted.split), column)
    elif path.suffix.lower() == ".parquet":
        yield from column_values(path, column)
    elif path.suffix.lower() == ".jsonl":
        yield from (row.get(column) for _, row in objects(path))
    else:
        found = CommaFormat().texts(path, replace(layout, text=column), wanted)
        yield from (value for (value,) in found)
