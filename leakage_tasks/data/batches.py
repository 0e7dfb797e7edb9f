"""Record batches that fit into memory after decompression, even if the compressed file is small."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.lines import LARGEST_ROW

ROWS = 256
BYTES = 32 << 20
"""Number of uncompressed bytes to read at a time; a larger row is read alone."""
_TURN = 64
BUFFER = 1 << 20


def open_parquet(source: Path, **options: Any) -> Any:
    """Open a ``pyarrow.parquet.ParquetFile``. Raises PlantingError for another file."""
    try:
        return pq.ParquetFile(source, buffer_size=BUFFER, **options)
    # UnicodeDecodeError is raised for a column whose name is not UTF-8.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PlantingError(f"{source}: not a parquet file ({first_line(error)}): check the file") from None


def first_column(batch: Any, source: Path, row: int) -> list[Any]:
    """Return the first column of a batch that begins at ``row``. Raises PlantingError for text that is not UTF-8."""
    try:
        return list(batch.column(0).to_pylist())
    except UnicodeDecodeError:
        raise PlantingError(f"{source}: damaged after row {row} (a text is not UTF-8): check the file") from None


def parquet_batches(source: Path, column: str | None = None) -> Iterator[Any]:
    """Yield record batches of a column, or of all columns, in the file's schema.

    Strings are decoded from their dictionaries only after their decoded size is known: a few hundred bytes of a file
    can contain gigabytes. Raises PlantingError for a damaged file, and for a row of more than 256 MiB.
    """
    with open_parquet(source) as table:
        schema, leaves = table.schema_arrow, _strings(table)
    columns = None if column is None else [column]
    wanted = schema if column is None else pa.schema([schema.field(column)])
    if not _can_unpack(source, leaves, schema):
        leaves = []
    row = 0
    with open_parquet(source, read_dictionary=leaves) as table:
        for group in range(table.num_row_groups):
            try:
                for batch in table.iter_batches(rows_at_once(table, group), row_groups=[group], columns=columns):
                    for piece in small_pieces(batch, source, row):
                        yield piece.cast(wanted)
                    row += len(batch)
            except (pa.ArrowException, OSError) as error:
                why = first_line(error)
                raise PlantingError(f"{source}: damaged after row {row} ({why}): check the file") from None


def small_pieces(batch: Any, source: Path, row: int) -> Iterator[Any]:
    """Yield ``batch`` in slices of one row or at most 32 MiB uncompressed; ``row`` is the number of rows before it."""
    size = sum(_unpacked_size(column) for column in batch.columns)
    if size > BYTES and len(batch) > 1:
        half = len(batch) // 2
        yield from small_pieces(batch.slice(0, half), source, row)
        yield from small_pieces(batch.slice(half), source, row + half)
        return
    if size > LARGEST_ROW:
        raise PlantingError(f"{source}: row {row + 1} takes {size >> 20:,} MiB, expected 256 at most: split the row")
    yield batch


def _unpacked_size(array: Any) -> int:
    """Return an array's size in bytes with decoded dictionaries and with turns as Python objects."""
    kind = array.type
    if pa.types.is_dictionary(kind) and _is_binary(kind.value_type):
        return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_struct(kind):
        return _TURN * len(array) + sum(_unpacked_size(child) for child in array.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _unpacked_size(array.flatten())
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _unpacked_size(array.cast(pa.large_binary()))
    return int(array.nbytes)


def _is_binary(kind: Any) -> bool:
    checks = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(check(kind) for check in checks)


def _strings(table: Any) -> list[str]:
    """Return the columns, including nested ones, whose strings can be read as dictionaries."""
    schema = table.schema
    columns = (schema.column(index) for index in range(len(schema)))
    string_types = {"STRING", "NONE"}
    return [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in string_types
    ]


def _can_unpack(source: Path, leaves: list[str], schema: Any) -> bool:
    with open_parquet(source, read_dictionary=leaves) as table:
        try:
            table.schema_arrow.empty_table().cast(schema)
        except pa.ArrowException:
            return False
    return True


def rows_at_once(table: Any, group: int) -> int:
    """Return the number of rows of a row group that are read at once: at most 256, for about 32 MiB uncompressed."""
    # A column's metadata is not requested: pyarrow ends the process if it is damaged.
    metadata = table.metadata.row_group(group)
    return max(1, min(ROWS, BYTES * metadata.num_rows // max(1, metadata.total_byte_size)))
