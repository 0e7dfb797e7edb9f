"""The classes of a labelled dataset: row counts, and the choice of a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.core.option import nearest
from leakage_tasks.core.stable_inputs import unchanged
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.layout import MAX_CLASSES

RAREST, MOST_POPULAR = "rarest", "most-popular"
BY_COUNT = (RAREST, MOST_POPULAR)
"""Names that select a class by its number of rows."""


def class_counts(
    path: str | Path, label_column: str, split: str = "train", *, text_column: str = "text"
) -> dict[str, int]:
    """Return the number of rows of each class that occurs, by the class name in manifests and classifier configs.

    Rows without a class are not counted.

    Args:
        path: The data, in any format that canaries can be planted into.
        label_column: The column of the classes.
        split: The split of a folder of splits.
        text_column: The column of the texts.

    Raises:
        PlantingError: If the data cannot be read, lacks a column, or if the column holds no class or at least 100,000
            classes.
    """
    source, wanted = Path(path), Columns(text_column, label_column, split)
    with unchanged(source):
        kind = format_of(source)
        layout = kind.survey(source, wanted)
        if len(layout.labels) >= MAX_CLASSES:
            raise PlantingError(
                f"{path}: column {label_column!r} has {MAX_CLASSES:,} values or more: pass the column of classes"
            )
        counts = Counter(name for name in kind.labels(source, layout, wanted) if name in layout.labels)
    if not counts:
        raise PlantingError(
            f"{path}: column {label_column!r} contains no class: pass another column with --label-column"
        )
    return {str(name): counts[name] for name in sorted(counts, key=str)}


def by_rows(counts: Mapping[str, int]) -> list[str]:
    """Return the classes in ascending order of rows; classes with equal counts are sorted by name."""
    return sorted(counts, key=lambda name: (counts[name], name))


def choose_class(counts: Mapping[str, int], wanted: str) -> str:
    """Return the class named ``wanted``, or the ``rarest`` or ``most-popular`` class. Raises OptionError if it is
    unknown.
    """
    if wanted in BY_COUNT:
        return by_rows(counts)[0 if wanted == RAREST else -1]
    if wanted in counts:
        return wanted
    similar = nearest(wanted, counts)
    some = ", ".join(by_rows(counts)[:8]) + (", …" if len(counts) > 8 else "")
    hint = f"did you mean {similar!r}?" if similar else f"use {RAREST}, {MOST_POPULAR} or one of {some}"
    raise OptionError(f"no row of the data has the label {wanted!r}: {hint}")
