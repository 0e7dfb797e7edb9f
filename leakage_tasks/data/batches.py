"""Record batches that fit into memory after decompression, even if the compressed file is small."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.lines import LARGEST_ROW, open_source
from leakage_tasks.data.pages import Chunk, pages, row_groups

ROWS = 256
BYTES = 32 << 20
"""Number of uncompressed bytes to read at a time; a larger row is read alone."""
FREE, TIMES = 64 << 20, 100
"""Limits on a page's uncompressed size: bytes that are always allowed, and the allowed multiple of its compressed
size."""
MOST_TURNS = 1 << 26
_TURN = 64
_BUFFER = 1 << 20


def open_parquet(source: Path, **options: Any) -> Any:
    """Open a ``pyarrow.parquet.ParquetFile``. Raises PlantingError for another file."""
    try:
        return pq.ParquetFile(source, buffer_size=_BUFFER, **options)
    # UnicodeDecodeError is raised for a column whose name is not UTF-8.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PlantingError(f"{source}: not a parquet file ({first_line(error)}): check the file") from None


def parquet_chunks(source: Path) -> list[list[Chunk]]:
    """Return the column chunks of each row group. Raises PlantingError if the file's footer is damaged."""
    with closing(open_source(source)) as stream:
        try:
            return row_groups(stream)
        except ValueError as error:
            raise PlantingError(f"{source}: not a parquet file ({error}): check the file") from None


def first_column(batch: Any, source: Path, row: int) -> list[Any]:
    """Return the first column of a batch that begins at ``row``. Raises PlantingError for text that is not UTF-8."""
    try:
        return list(batch.column(0).to_pylist())
    except UnicodeDecodeError:
        raise PlantingError(f"{source}: damaged after row {row} (a text is not UTF-8): check the file") from None


def parquet_batches(source: Path, column: str | None = None) -> Iterator[Any]:
    """Yield record batches of a column, or of all columns, in the file's schema.

    Strings are decoded from their dictionaries only after their decoded size is known: a few hundred bytes of a file
    can contain gigabytes. Raises PlantingError for a damaged file, for a page with an implausible compression ratio,
    and for a row of more than 256 MiB.
    """
    with open_parquet(source) as table:
        schema, leaves = table.schema_arrow, _strings(table)
    columns = None if column is None else [column]
    wanted = schema if column is None else pa.schema([schema.field(column)])
    if not _can_unpack(source, leaves, schema):
        leaves = []
    row = 0
    with open_parquet(source, read_dictionary=leaves) as table:
        for group, chunks in enumerate(parquet_chunks(source)):
            rows = _rows_at_once(source, chunks, column, leaves)
            try:
                for batch in table.iter_batches(rows, row_groups=[group], columns=columns):
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


def _rows_at_once(source: Path, chunks: list[Chunk], column: str | None, leaves: list[str]) -> int:
    """Return the number of rows of a row group that can be read at once, even if each row is as large as a page."""
    largest = 0
    with closing(open_source(source)) as stream:
        for chunk in chunks:
            if column is None or chunk.path.split(".")[0] == column or chunk.path == column:
                largest += _largest_page(source, stream, chunk, keeps=chunk.path in leaves, turns=column is not None)
    return max(1, min(ROWS, BYTES // max(1, largest)))


def _largest_page(source: Path, stream: BinaryIO, chunk: Chunk, *, keeps: bool, turns: bool) -> int:
    """Return the uncompressed bytes of a column's largest page; if ``keeps``, dictionary pages do not count."""
    largest = values = 0
    try:
        for page in pages(stream, chunk):
            if page.unpacked > max(FREE, TIMES * page.packed):
                raise PlantingError(
                    f"{source}: column {chunk.path!r} unpacks {page.packed:,} bytes to "
                    f"{page.unpacked >> 20:,} MiB: write the file with smaller pages if this size is intended"
                )
            values += 0 if page.dictionary else page.values
            largest = largest if page.dictionary and keeps else max(largest, page.unpacked)
    except ValueError as error:
        raise PlantingError(f"{source}: not a parquet file ({error}): check the file") from None
    nested = "." in chunk.path
    if turns and nested and values > max(MOST_TURNS, TIMES * chunk.packed):
        raise PlantingError(
            f"{source}: column {chunk.path!r} holds {values:,} turns in a row group, expected "
            f"{MOST_TURNS:,} at most: write the file with smaller row groups"
        )
    return largest
