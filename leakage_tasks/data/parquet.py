"""Parquet: read and written batch by batch, with the schema and its metadata as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakage_tasks.data.base import Columns, Layout, Places, Points, Row, lost_rows
from leakage_tasks.data.batches import open_parquet, parquet_batches, parquet_chunks
from leakage_tasks.data.columns import ArrowFormat

GROUP_BYTES = 32 << 20


class ParquetFormat(ArrowFormat):
    """``.parquet``."""

    name = "parquet"

    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """As the file's footer says."""
        with open_parquet(source) as table:
            return table.schema_arrow, table.metadata.num_rows

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy batch by batch; the other columns of an inserted row are null, or empty where null is barred."""
        schema, _ = self.schema_and_rows(source, wanted)
        write_batches(_splice(parquet_batches(source), points, schema), output, schema, compression_of(source))

    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy batch by batch."""
        schema, _ = self.schema_and_rows(source, wanted)
        write_batches(_kept(parquet_batches(source), dropped), output, schema, compression_of(source))

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """What a column holds, in batches that fit in memory."""
        for batch in parquet_batches(path, column):
            yield from batch.column(0).to_pylist()


def write_batches(batches: Iterator[Any], output: Path, schema: Any, compression: str) -> None:
    """A new file of record batches, in row groups of 32 MiB."""
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
    """How a file's first column is compressed, as its writer names it."""
    return next((chunk.codec for group in parquet_chunks(source) for chunk in group), "snappy")


def _kept(batches: Iterator[Any], dropped: Places) -> Iterator[Any]:
    row = 0
    for batch in batches:
        yield batch.take([place for place in range(len(batch)) if row + place not in dropped])
        row += len(batch)


def _splice(batches: Iterator[Any], points: Points, schema: Any) -> Iterator[Any]:
    def inserted(place: int) -> Any:
        return pa.RecordBatch.from_pylist([_filled(points[place][1], schema)], schema=schema)

    place, row = 0, 0
    while place < len(points) and points[place][0] == 0:
        yield inserted(place)
        place += 1
    for batch in batches:
        start = 0
        while place < len(points) and points[place][0] <= row + len(batch):
            end = points[place][0] - row
            yield batch.slice(start, end - start)
            yield inserted(place)
            start, place = end, place + 1
        yield batch.slice(start)
        row += len(batch)
    if place < len(points):
        raise lost_rows(row)


def _filled(row: Row, schema: Any) -> Row:
    """The row with something empty in the columns that take no null."""
    for name, value in row.items():
        field = schema.field(name)
        if value is None and not field.nullable:
            empties: tuple[Any, ...] = ("", 0, [], {})
            row[name] = next((empty for empty in empties if _fits(empty, field.type)), None)
    return row


def _fits(value: Any, kind: Any) -> bool:
    try:
        pa.scalar(value, type=kind)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True
