"""Dictionary-encoded columns: room for values that planted rows bring, and none left of rows that were dropped."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leakage_tasks.data.layout import Layout

_NARROW = 32
"""Bits of an index that no data outgrow by the canaries in them."""


def with_room(schema: Any, layout: Layout) -> Any:
    """Return the schema with 32-bit indices in the dictionary columns that may get values which no row has.

    A category of pandas has 8-bit indices up to 128 values, and readers refuse a file with more.
    """
    for index, field in enumerate(schema):
        new_values = field.name in (layout.text, layout.source) or not field.nullable
        if pa.types.is_dictionary(field.type) and new_values and field.type.index_type.bit_width < _NARROW:
            wider = pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered)
            schema = schema.set(index, field.with_type(wider))
    return schema


def without_unused(batch: Any, layout: Layout) -> Any:
    """Return the batch without dictionary entries of the text and source columns that none of its rows uses.

    A file keeps such entries, so the text of a row that was dropped would still stand in it.
    """
    for index, field in enumerate(batch.schema):
        if pa.types.is_dictionary(field.type) and field.name in (layout.text, layout.source):
            array = batch.column(index)
            used = pc.unique(array.indices.drop_null()).sort()
            indices = pc.index_in(array.indices, used).cast(field.type.index_type)
            entries = array.dictionary.take(used)
            fewer = pa.DictionaryArray.from_arrays(indices, entries, ordered=field.type.ordered)
            batch = batch.set_column(index, field, fewer)
    return batch


def in_dictionaries_of(batch: Any, row: Any) -> Any:
    """A record batch of one row with the dictionaries of another; its own where a value is in none of those."""
    if not any(_has_dictionary(field.type) for field in row.schema):
        return row
    columns = [_as_beside(column, there) for column, there in zip(row.columns, batch.columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=row.schema)


def _as_beside(own: Any, there: Any) -> Any:
    if not _has_dictionary(own.type):
        return own
    if own.null_count:
        return there.take(pa.array([None], pa.int64()))
    if pa.types.is_dictionary(own.type):
        place = pc.index_in(own.dictionary_decode(), there.dictionary)
        if not place.null_count:
            return pa.DictionaryArray.from_arrays(
                place.cast(own.type.index_type), there.dictionary, ordered=own.type.ordered
            )
    return own


def _has_dictionary(kind: Any) -> bool:
    children = range(kind.num_fields)
    return pa.types.is_dictionary(kind) or any(_has_dictionary(kind.field(place).type) for place in children)
