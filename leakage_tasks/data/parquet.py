"""The format of parquet files, read with few rows in memory; copies keep schema, metadata and compression."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.base import register_format
from leakage_tasks.data.batches import BYTES, ROWS, small_pieces
from leakage_tasks.data.layout import Columns
from leakage_tasks.data.typed import BatchFormat

GROUP_BYTES = 32 << 20
BUFFER = 1 << 20


@register_format("parquet")
class ParquetFormat(BatchFormat):
    """The format of ``.parquet`` files."""

    name = "parquet"

    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """Return the schema and the number of rows from the file's footer."""
        with open_parquet(source) as table:
            return table.schema_arrow, table.metadata.num_rows

    def batches(self, source: Path, column: str | None = None) -> Iterator[Any]:
        """Yield record batches in pieces that fit in memory."""
        return parquet_batches(source, column)

    def save(self, batches: Iterator[Any], output: Path, schema: Any, source: Path) -> None:
        """Write record batches with the compression of ``source``."""
        write_batches(batches, output, schema, compression_of(source))


def open_parquet(source: Path, **options: Any) -> Any:
    """Open a ``pyarrow.parquet.ParquetFile``. Raises PlantingError for another file."""
    try:
        return pq.ParquetFile(source, buffer_size=BUFFER, **options)
    # UnicodeDecodeError is raised for a column whose name is not UTF-8.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PlantingError(f"{source}: not a parquet file ({first_line(error)}): check the file") from None


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


def rows_at_once(table: Any, group: int) -> int:
    """Return the number of rows of a row group that are read at once: at most 256, for about 32 MiB uncompressed."""
    # A column's metadata is not requested: pyarrow ends the process if it is damaged.
    metadata = table.metadata.row_group(group)
    return max(1, min(ROWS, BYTES * metadata.num_rows // max(1, metadata.total_byte_size)))


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


def write_batches(batches: Iterator[Any], output: Path, schema: Any, compression: str) -> None:
    """Write record batches to a new file, in row groups of 32 MiB."""
    held: list[Any] = []
    size = 0
    with pq.ParquetWriter(output, schema, compression=compression) as writer:
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(held, schema))
                held, size = [], 0
        if held:
            writer.write_table(pa.Table.from_batches(held, schema))


def compression_of(source: Path) -> str:
    """Return the compression of a file's first column, by its name in the parquet writer.

    The file must have been read before: pyarrow ends the process if a column's metadata is damaged.
    """
    with open_parquet(source) as table:
        if not (table.metadata.num_row_groups and table.metadata.num_columns):
            return "snappy"
        codec = table.metadata.row_group(0).column(0).compression.lower()
    return "none" if codec == "uncompressed" else codec
