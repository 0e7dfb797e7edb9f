"""Folders saved by ``datasets``: a single dataset, or several splits, one of which gets the canaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leakage_tasks.core.errors import LeakageError, PlantingError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.additions import with_addition
from leakage_tasks.data.base import register_format
from leakage_tasks.data.batches import ROWS, small_pieces
from leakage_tasks.data.layout import Additions, Columns, Layout, Places, Points
from leakage_tasks.data.typed import ArrowFormat


def is_saved(folder: Path) -> bool:
    """Return True if ``datasets`` saved this folder, as a dataset or as a dict of splits."""
    return (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file()


@register_format("folder of datasets")
class SavedFormat(ArrowFormat):
    """The format of ``save_to_disk``; other splits are copied unchanged."""

    name = "datasets"
    folder = "a folder saved by 'datasets'"

    @classmethod
    def holds(cls, folder: Path) -> bool:
        """Return True if ``datasets`` saved the folder, as a dataset or as a dict of splits."""
        return is_saved(folder)

    @classmethod
    def check_folder(cls, output: Path) -> None:
        """Raise PlantingError unless the existing ``output`` is a saved folder too."""
        if not is_saved(output):
            raise PlantingError(f"{output}: exists and is not a folder saved by 'datasets': choose another name")

    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """Return the split's schema and rows; validate its memory map, as ``datasets`` does not check offsets."""
        data = _choose_split(source, _load(source), wanted.split)
        with _damage(source):
            data.data.table.validate(full=True)
        return data.features.arrow_schema, len(data)

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Save a copy with unchanged features; other columns of an inserted row are null."""
        import datasets

        def insert(data: Any) -> Any:
            rows = datasets.Dataset.from_list([row for _, row in points], features=data.features)
            new = np.arange(len(data), len(data) + len(points))
            indices = np.insert(np.arange(len(data)), [gap for gap, _ in points], new)
            return datasets.concatenate_datasets([data, rows]).select(indices)

        _save_changed(source, output, wanted, insert)

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Save a copy with unchanged features; only the text column of rows with added texts is replaced."""
        import datasets

        def extend(data: Any) -> Any:
            rows = sorted(additions)
            table = data.select(rows).with_format("arrow")[:]
            at = table.schema.get_field_index(layout.text)
            turns = [
                with_addition(value, *additions[row])
                for row, value in zip(rows, table.column(at).to_pylist(), strict=True)
            ]
            field = table.schema.field(at)
            changed = table.set_column(at, field, pa.chunked_array([pa.array(turns, type=field.type)]))
            new = datasets.Dataset(changed, info=datasets.DatasetInfo(features=data.features))
            indices = np.arange(len(data))
            indices[rows] = np.arange(len(data), len(data) + len(rows))
            return datasets.concatenate_datasets([data, new]).select(indices)

        _save_changed(source, output, wanted, extend)

    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Save a copy with unchanged features, without the rows ``dropped``."""

        def drop(data: Any) -> Any:
            return data.select([row for row in range(len(data)) if row not in dropped])

        _save_changed(source, output, wanted, drop)

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """Yield a column's values, read in pieces that fit in memory."""
        row = 0
        data = _choose_split(path, _load(path), wanted.split)
        for table in data.select_columns(column).with_format("arrow").iter(ROWS):
            for batch in table.to_batches():
                for piece in small_pieces(batch, path, row):
                    yield from piece.column(0).to_pylist()
                row += len(batch)


def _save_changed(source: Path, output: Path, wanted: Columns, change: Callable[[Any], Any]) -> None:
    import datasets

    with quiet(), _damage(source):
        loaded = _load(source)
        changed = change(_choose_split(source, loaded, wanted.split))
        if isinstance(loaded, datasets.DatasetDict):
            changed = datasets.DatasetDict({**loaded, wanted.split: changed})
        changed.save_to_disk(output)


def _load(folder: Path) -> Any:
    import datasets

    with _damage(folder):
        try:
            return datasets.load_from_disk(str(folder))
        except OSError as error:
            raise _unusable(folder, error) from None


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    """Convert any error of a damaged folder in the ``with`` block to PlantingError.

    The library raises many types, some of them only when it writes.
    """
    try:
        yield
    except (LeakageError, OSError):
        raise
    except Exception as error:
        raise _unusable(folder, error) from None


def _unusable(folder: Path, error: Exception) -> PlantingError:
    return PlantingError(f"{folder}: cannot be loaded by 'datasets' ({first_line(error)}): save it again")


def _choose_split(folder: Path, loaded: Any, split: str) -> Any:
    import datasets

    if not isinstance(loaded, datasets.DatasetDict):
        return loaded.with_format(None)
    if split not in loaded:
        problem = f"no split {split!r} (it has {', '.join(loaded)})"
        raise PlantingError(subject=str(folder), problem=problem, remedy="name one with {}", option="split")
    return loaded[split].with_format(None)


@contextmanager
def quiet() -> Iterator[None]:
    """Disable the progress bars of ``datasets`` in the ``with`` block."""
    import datasets

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            datasets.enable_progress_bars()
