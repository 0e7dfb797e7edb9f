"""Shards of a hub data set, streamed by the library ``datasets`` without loading a whole shard.

A small file, the pointer, is used as the path of the data. It contains the commit (for a folder: a hash of its state)
from the start, so every read returns identical data or fails.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakage_tasks.core.errors import LeakageError, PlantingError
from leakage_tasks.core.inputs import parse_json, read_bytes
from leakage_tasks.core.records import read_record
from leakage_tasks.core.stable_inputs import changed
from leakage_tasks.data.base import register_format
from leakage_tasks.data.batches import small_pieces
from leakage_tasks.data.layout import Columns, Layout
from leakage_tasks.data.parquet import BUFFER, rows_at_once, write_batches
from leakage_tasks.data.pointer import POINTER, Pointer
from leakage_tasks.data.saved import quiet
from leakage_tasks.data.typed import BatchFormat, layout_of

ROWS = 1_000
COMPRESSION = "zstd"
_OURS = ".leakage-"
_REMEDY = "check the name, that the hub can be reached, and that 'datasets' can stream its data"


@register_format("data set of the hub")
class HubFormat(BatchFormat):
    """The format of pointers to shards of a hub data set; copies are parquet files."""

    name = "parquet"
    pointer = True

    @classmethod
    def holds(cls, folder: Path) -> bool:
        """Return True if the path is a pointer."""
        return folder.suffix == POINTER and folder.is_file()

    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """Return the schema of all shards; the number of rows is not known yet."""
        return _features_of(_pointer(source)).arrow_schema, 0

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Stream the texts once, and the labels once more."""
        layout = super().survey(source, wanted)
        layout.characters = 0
        for turns in self.texts(source, layout, wanted):
            layout.rows += 1
            layout.characters += sum(map(len, turns))
        return layout

    def peek(self, source: Path, wanted: Columns) -> Layout:
        """Read the schema only."""
        return layout_of(source, *self.schema_and_rows(source, wanted), wanted)

    def batches(self, source: Path, column: str | None = None) -> Iterator[Any]:
        """Stream record batches in the schema of all shards."""
        return _batches(source, column)

    def save(self, batches: Iterator[Any], output: Path, schema: Any, source: Path) -> None:
        """Write a parquet file."""
        write_batches(batches, output, schema, COMPRESSION)


def commit_of(name: str, revision: str | None) -> str:
    """Return the current commit; for a folder, a hash that changes with its files."""
    if not Path(name).is_absolute():
        from huggingface_hub import HfApi

        return str(HfApi().dataset_info(name, revision=revision).sha)
    files = {str(path.relative_to(name)): path.stat() for path in Path(name).rglob("*") if path.is_file()}
    stamps = sorted((file, status.st_size, status.st_mtime_ns) for file, status in files.items() if _OURS not in file)
    return hashlib.sha256(json.dumps(stamps).encode()).hexdigest()


def builder_of(name: str, subset: str | None, commit: str, features: Any = None) -> Any:
    """Return a builder that lists the files of a data set and streams its splits.

    Args:
        name: The data set: ``owner/name``, or the absolute path of a folder.
        subset: The configuration, or None for the default.
        commit: The commit to read.
        features: The features; without them, the builder reads some data to infer them.
    """
    import datasets

    revision = None if Path(name).is_absolute() else commit
    return datasets.load_dataset_builder(name, subset, revision=revision, features=features)


def features_of(stream: Any) -> Any:
    """Return the features that the data set states, or the features of its first rows."""
    import datasets

    if stream.features is not None:
        return stream.features
    first = next(iter(stream.with_format("arrow").iter(ROWS)), None)
    if first is None:
        raise PlantingError("holds no row, so its columns are unknown")
    return datasets.Features.from_arrow_schema(first.schema)


def _pointer(source: Path) -> Pointer:
    try:
        return read_record(Pointer, parse_json(read_bytes(source)))
    except (OSError, ValueError):
        raise PlantingError(f"{source}: no pointer to a data set of the hub: plant again") from None


def _features_of(pointer: Pointer) -> Any:
    import datasets

    return datasets.Features.from_dict(pointer.features)


def _batches(source: Path, column: str | None = None) -> Iterator[Any]:
    """Yield record batches of a column, or of all columns, in the schema of all shards."""
    from datasets.table import table_cast

    pointer, row = _pointer(source), 0
    schema = _features_of(pointer).arrow_schema
    schema = schema if column is None else pa.schema([schema.field(column)])
    with streaming(f"{pointer.display_name}: shard {pointer.shard + 1} of {pointer.of}"):
        if commit_of(pointer.name, pointer.revision) != pointer.revision:
            raise changed(Path(pointer.name))
        for table in _tables(pointer, column):
            for batch in table_cast(table, schema).to_batches():
                yield from small_pieces(batch, source, row)
                row += len(batch)
        if commit_of(pointer.name, pointer.revision) != pointer.revision:
            raise changed(Path(pointer.name))


def _tables(pointer: Pointer, column: str | None) -> Iterator[Any]:
    builder = builder_of(pointer.name, pointer.subset, pointer.revision, _features_of(pointer))
    files = parquet_files(builder, pointer.split)
    if len(files) == pointer.of:
        yield from tables_of(files[pointer.shard], column)
        return
    stream = builder.as_streaming_dataset(pointer.split)
    for table in stream.shard(pointer.of, pointer.shard).with_format("arrow").iter(ROWS):
        yield table if column is None else table.select([column])


def parquet_files(builder: Any, split: str) -> list[str]:
    """Return the paths and addresses of a split's files, one per shard; empty if they must be streamed.

    They must be streamed if they are not parquet files, or if the data set's card selects columns or rows.
    """
    from datasets.packaged_modules.parquet.parquet import ParquetConfig

    config = builder.config
    whole = isinstance(config, ParquetConfig) and config.columns is None and getattr(config, "filters", None) is None
    return [str(file) for file in config.data_files[split]] if whole else []


def tables_of(file: str, column: str | None) -> Iterator[Any]:
    """Yield tables of one column, or of all columns; a column that the file lacks is left out.

    ``datasets`` also streams such files, but with a pyarrow scanner that reads up to 1 GiB more than the caller has
    used.
    """
    from datasets.utils.file_utils import xopen

    with xopen(file, "rb") as stream, pq.ParquetFile(stream, buffer_size=BUFFER) as parquet:
        columns = None if column is None else [column]
        for group in range(parquet.num_row_groups):
            for batch in parquet.iter_batches(rows_at_once(parquet, group), row_groups=[group], columns=columns):
                yield pa.Table.from_batches([batch])


@contextmanager
def streaming(name: str) -> Iterator[None]:
    """Convert any error of ``datasets`` in the ``with`` block to a one-line error, and hide the library's own
    output."""
    import datasets

    level = datasets.logging.get_verbosity()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        with quiet():
            yield
    except LeakageError:
        raise
    except Exception as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise PlantingError(f"{name}: cannot be streamed ({why.rstrip('.')}): {_REMEDY}") from None
    finally:
        datasets.logging.set_verbosity(level)
