"""Folders that ``datasets`` saved: one dataset, or several splits of which one gets the canaries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import LeakageError, PlantingError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.base import Columns, Layout, Points, Turns, note_label, turns_of
from leakage_tasks.data.batches import ROWS, small_pieces
from leakage_tasks.data.columns import layout_of, named_classes


def is_saved(folder: Path) -> bool:
    """Whether ``datasets`` saved this folder, as a dataset or as a dict of splits."""
    return (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file()


class SavedFormat:
    """What ``save_to_disk`` writes; the other splits are copied as they are."""

    name = "datasets"
    running = False

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read features and label column. Raises PlantingError if split or column is missing."""
        data = _choose_split(source, _load(source), wanted.split)
        _check(source, data)
        layout = layout_of(source, data.features.arrow_schema, len(data), wanted)
        if wanted.label is not None:
            layout.labels = named_classes(getattr(data.features[wanted.label], "names", None) or [])
            for value in () if layout.labels else _values(source, data, wanted.label):
                note_label(layout.labels, value)
        return layout

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Save a copy with the same features; the other columns of an inserted row are null."""
        from datasets import Dataset, DatasetDict, concatenate_datasets

        with _quiet(), _damage(source):
            loaded = _load(source)
            data = _choose_split(source, loaded, wanted.split)
            rows = Dataset.from_list([row for _, row in points], features=data.features)
            whole = concatenate_datasets([data, rows]).select(_order(len(data), [gap for gap, _ in points]))
            if isinstance(loaded, DatasetDict):
                DatasetDict({**loaded, wanted.split: whole}).save_to_disk(output)
            else:
                whole.save_to_disk(output)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """The text of every row, or its chat turns."""
        for value in _values(path, _choose_split(path, _load(path), wanted.split), layout.text):
            yield turns_of(value)


def _load(folder: Path) -> Any:
    from datasets import load_from_disk

    with _damage(folder):
        try:
            return load_from_disk(str(folder))
        except OSError as error:
            raise _unusable(folder, error) from None


def _check(folder: Path, data: Any) -> None:
    """Raise PlantingError for a table whose offsets lead elsewhere: it is a memory map, and nobody else looks."""
    with _damage(folder):
        data.data.table.validate(full=True)


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    """A damaged folder makes the library raise anything from KeyError to ArrowInvalid, some of it only as it writes."""
    try:
        yield
    except (LeakageError, OSError):
        raise
    except Exception as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: Exception) -> PlantingError:
    return PlantingError(f"{folder}: cannot be loaded by 'datasets' ({first_line(error)}): save it anew")


def _choose_split(folder: Path, loaded: Any, split: str) -> Any:
    from datasets import DatasetDict

    if not isinstance(loaded, DatasetDict):
        return loaded.with_format(None)
    if split not in loaded:
        problem = f"no split {split!r} (it has {', '.join(loaded)})"
        raise PlantingError(subject=str(folder), problem=problem, remedy="name one with {}", option="split")
    return loaded[split].with_format(None)


def _values(folder: Path, data: Any, column: str) -> Iterator[Any]:
    """What a column holds, row by row; a table of the memory map is read in pieces that fit in memory."""
    row = 0
    for table in data.select_columns(column).with_format("arrow").iter(ROWS):
        for batch in table.to_batches():
            for piece in small_pieces(batch, folder, row):
                yield from piece.column(0).to_pylist()
            row += len(batch)


def _order(rows: int, gaps: list[int]) -> Any:
    """Places of old rows (0 … rows−1) and new ones (from ``rows`` on) such that new row i stands in gap i."""
    import numpy as np

    return np.insert(np.arange(rows), gaps, np.arange(rows, rows + len(gaps)))


@contextmanager
def _quiet() -> Iterator[None]:
    from datasets import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
