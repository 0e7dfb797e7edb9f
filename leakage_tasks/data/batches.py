"""Streams of record batches: pieces that fit into memory, inserted rows, dropped rows and added texts."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.additions import with_addition
from leakage_tasks.data.dictionaries import in_dictionaries_of, without_unused
from leakage_tasks.data.layout import Additions, Layout, Places, Points, Row, lost_rows
from leakage_tasks.data.lines import LARGEST_ROW

ROWS = 256
BYTES = 32 << 20
"""Number of uncompressed bytes to read at a time; a larger row is read alone."""
_TURN = 64


def first_column(batch: Any, source: Path, row: int) -> list[Any]:
    """Return the first column of a batch that begins at ``row``. Raises PlantingError for text that is not UTF-8."""
    try:
        return list(batch.column(0).to_pylist())
    except UnicodeDecodeError:
        raise PlantingError(f"{source}: damaged after row {row} (a text is not UTF-8): check the file") from None


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


def with_additions(batches: Iterator[Any], layout: Layout, additions: Additions) -> Iterator[Any]:
    """Yield batches with texts added to chat turns; only the text column of these rows is replaced."""
    row = 0
    for batch in batches:
        start, at = 0, batch.schema.get_field_index(layout.text)
        kind = batch.schema.field(at).type
        for index in sorted(addition - row for addition in additions if row <= addition < row + len(batch)):
            yield batch.slice(start, index - start)
            changed = batch.slice(index, 1)
            turns = with_addition(changed.column(at)[0].as_py(), *additions[row + index])
            yield changed.set_column(at, batch.schema.field(at), pa.array([turns], type=kind))
            start = index + 1
        yield batch.slice(start)
        row += len(batch)
    if row != layout.rows:
        raise lost_rows(row)


def without_rows(batches: Iterator[Any], dropped: Places, layout: Layout) -> Iterator[Any]:
    """Yield record batches without the rows ``dropped``, whose texts are also removed from dictionaries."""
    row = 0
    for batch in batches:
        remaining = [index for index in range(len(batch)) if row + index not in dropped]
        yield without_unused(batch.take(pa.array(remaining, pa.int64())), layout)
        row += len(batch)


def splice(batches: Iterator[Any], points: Points, schema: Any, source: Path) -> Iterator[Any]:
    """Yield record batches with inserted rows.

    Args:
        batches: The record batches of the data.
        points: The rows to insert, each with its gap, sorted by gap.
        schema: The schema of the result.
        source: The data, for error messages.

    Raises:
        PlantingError: If the data have fewer rows than the last gap, or if a column without a value does not allow
            null.
    """

    def inserted(index: int, batch: Any) -> Any:
        made = pa.RecordBatch.from_pylist([_fill_barred(points[index][1], schema, source)], schema=schema)
        return made if batch is None else in_dictionaries_of(batch, made)

    index, row = 0, 0
    batches = (batch if batch.schema.equals(schema) else batch.cast(schema) for batch in batches)
    first = next(batches, None)
    while index < len(points) and points[index][0] == 0:
        yield inserted(index, first)
        index += 1
    for batch in chain(() if first is None else (first,), batches):
        start = 0
        while index < len(points) and points[index][0] <= row + len(batch):
            end = points[index][0] - row
            yield batch.slice(start, end - start)
            yield inserted(index, batch)
            start, index = end, index + 1
        yield batch.slice(start)
        row += len(batch)
    if index < len(points):
        raise lost_rows(row)


def _fill_barred(row: Row, schema: Any, source: Path) -> Row:
    """Replace null by an empty value in columns that do not allow null. Raises PlantingError if no empty value fits."""
    for name, value in row.items():
        field = schema.field(name)
        if value is None and not field.nullable:
            width = field.type.byte_width if pa.types.is_fixed_size_binary(field.type) else 0
            empties: tuple[Any, ...] = ("", 0, False, bytes(width), [], {})
            row[name] = next((empty for empty in empties if _fits(empty, field.type)), None)
            if row[name] is None:
                raise PlantingError(
                    f"{source}: column {name!r} holds {field.type} and takes no null, so an inserted row has "
                    "no value for it: allow null, or leave the column out"
                )
    return row


def _fits(value: Any, kind: Any) -> bool:
    try:
        pa.scalar(value, type=kind)
    except (pa.ArrowException, TypeError, ValueError):
        return False
    return True
