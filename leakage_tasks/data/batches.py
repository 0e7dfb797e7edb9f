"""Typed columns a few rows at a time, so few that they fit in memory once unpacked, however small the file is."""

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
"""Unpacked bytes that are read or handed on at a time; a row that has more comes alone."""
FREE, TIMES = 64 << 20, 100
"""A page may unpack to so many bytes in any case, and to so many times its size in the file."""
MOST_TURNS = 1 << 26
_TURN = 64
_BUFFER = 1 << 20


def open_parquet(source: Path, **options: Any) -> Any:
    """A ``pyarrow.parquet.ParquetFile``. Raises PlantingError if it is none."""
    try:
        return pq.ParquetFile(source, buffer_size=_BUFFER, **options)
    # The last is of a column whose name is no text.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PlantingError(f"{source}: not a parquet file ({first_line(error)}): check the file") from None


def parquet_chunks(source: Path) -> list[list[Chunk]]:
    """The columns of each row group. Raises PlantingError if the file's footer is damaged."""
    with closing(open_source(source)) as stream:
        try:
            return row_groups(stream)
        except ValueError as error:
            raise PlantingError(f"{source}: not a parquet file ({error}): check the file") from None


def first_column(batch: Any, source: Path, row: int) -> list[Any]:
    """What it holds; the batch begins at ``row``. Raises PlantingError for text that is no UTF-8."""
    try:
        return list(batch.column(0).to_pylist())
    except UnicodeDecodeError:
        raise PlantingError(f"{source}: damaged after row {row} (a text is not UTF-8): check the file") from None


def parquet_batches(source: Path, column: str | None = None) -> Iterator[Any]:
    """Record batches of a column, or of all, in the file's schema.

    Strings stay in their dictionaries until it is known how large they are without: a few hundred bytes of a file can
    stand for gigabytes. Raises PlantingError for a damaged file, a page that is packed too tightly to be meant, or a
    row of more than 256 MiB.
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
    """``batch`` in slices of at most 32 MiB unpacked, or of one row; ``row`` are those before it."""
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
    """Bytes that an array takes without dictionaries, its turns as Python keeps them."""
    kind = array.type
    if pa.types.is_dictionary(kind) and _is_binary(kind.value_type):
        return pc.sum(pc.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_struct(kind):
        return _TURN * len(array) + sum(_unpacked_size(each) for each in array.flatten())
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _unpacked_size(array.flatten())
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _unpacked_size(array.cast(pa.large_binary()))
    return int(array.nbytes)


def _is_binary(kind: Any) -> bool:
    known = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(each(kind) for each in known)


def _strings(table: Any) -> list[str]:
    """The columns, nested ones too, whose dictionaries can be kept."""
    schema = table.schema
    columns = (schema.column(index) for index in range(len(schema)))
    kept = {"STRING", "NONE"}
    return [
        column.path for column in columns if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in kept
    ]


def _can_unpack(source: Path, leaves: list[str], schema: Any) -> bool:
    with open_parquet(source, read_dictionary=leaves) as table:
        try:
            table.schema_arrow.empty_table().cast(schema)
        except pa.ArrowException:
            return False
    return True


def _rows_at_once(source: Path, chunks: list[Chunk], column: str | None, leaves: list[str]) -> int:
    """Rows of a row group that can be read at once, even if each is as large as a page."""
    largest = 0
    with closing(open_source(source)) as stream:
        for chunk in chunks:
            if column is None or chunk.path.split(".")[0] == column or chunk.path == column:
                largest += _largest_page(source, stream, chunk, keeps=chunk.path in leaves, turns=column is not None)
    return max(1, min(ROWS, BYTES // max(1, largest)))


def _largest_page(source: Path, stream: BinaryIO, chunk: Chunk, *, keeps: bool, turns: bool) -> int:
    """Unpacked bytes of a column's largest page; dictionaries that are kept do not count."""
    largest = values = 0
    try:
        for page in pages(stream, chunk):
            if page.unpacked > max(FREE, TIMES * page.packed):
                raise PlantingError(
                    f"{source}: column {chunk.path!r} unpacks {page.packed:,} bytes to "
                    f"{page.unpacked >> 20:,} MiB: write the file anew in smaller pages, if that is meant"
                )
            values += 0 if page.dictionary else page.values
            largest = largest if page.dictionary and keeps else max(largest, page.unpacked)
    except ValueError as error:
        raise PlantingError(f"{source}: not a parquet file ({error}): check the file") from None
    nested = "." in chunk.path
    if turns and nested and values > max(MOST_TURNS, TIMES * chunk.packed):
        raise PlantingError(
            f"{source}: column {chunk.path!r} holds {values:,} turns in a row group, expected "
            f"{MOST_TURNS:,} at most: write the file anew in smaller row groups"
        )
    return largest
