"""Parquet: read and written batch by batch, with the schema and its metadata as they were."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.data.base import Columns, Layout, Points, Row, Turns, note_label, turns_of
from leakage_tasks.data.batches import open_parquet, parquet_batches, parquet_chunks
from leakage_tasks.data.columns import layout_of, named_classes

GROUP_BYTES = 32 << 20


class ParquetFormat:
    """``.parquet``; class names that 'datasets' left in the metadata are understood."""

    name = "parquet"
    running = False

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read schema and label column. Raises PlantingError if the file is damaged or lacks a column."""
        with open_parquet(source) as table:
            schema, rows = table.schema_arrow, table.metadata.num_rows
        layout = layout_of(source, schema, rows, wanted)
        if wanted.label is not None:
            layout.labels = named_classes(_class_names(schema, wanted.label))
            for value in () if layout.labels else column_values(source, wanted.label):
                note_label(layout.labels, value)
        return layout

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy batch by batch; the other columns of an inserted row are null, or empty where null is barred."""
        with open_parquet(source) as table:
            schema = table.schema_arrow
        write_batches(_splice(parquet_batches(source), points, schema), output, schema, compression_of(source))

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """The text of every row, or its chat turns."""
        for value in column_values(path, layout.text):
            yield turns_of(value)


def column_values(source: Path, column: str) -> Iterator[Any]:
    """What a column holds, row by row."""
    for batch in parquet_batches(source, column):
        yield from batch.column(0).to_pylist()


def write_batches(batches: Iterator[Any], output: Path, schema: Any, compression: str) -> None:
    """A new file of record batches, in row groups of 32 MiB."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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


def _class_names(schema: Any, column: str) -> list[str]:
    """Names of a ClassLabel column, from the metadata 'datasets' writes; none for other columns."""
    try:
        feature = parse_json(schema.metadata[b"huggingface"])["info"]["features"][column]
        return list(feature["names"]) if feature["_type"] == "ClassLabel" else []
    except (KeyError, TypeError, ValueError):
        return []


def compression_of(source: Path) -> str:
    """How a file's first column is compressed, as its writer names it."""
    return next((chunk.codec for group in parquet_chunks(source) for chunk in group), "snappy")


def _splice(batches: Iterator[Any], points: Points, schema: Any) -> Iterator[Any]:
    import pyarrow as pa

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
        raise PlantingError(f"the input lost rows while it was being read ({row} left): plant when nobody writes to it")


def _filled(row: Row, schema: Any) -> Row:
    """The row with something empty in the columns that take no null."""
    import pyarrow as pa

    for name, value in row.items():
        field = schema.field(name)
        if value is None and not field.nullable:
            empties: tuple[Any, ...] = ("", 0, [], {})
            row[name] = next((empty for empty in empties if _fits(pa, empty, field.type)), None)
    return row


def _fits(pa: Any, value: Any, kind: Any) -> bool:
    try:
        pa.scalar(value, type=kind)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True
