"""Dictionary-encoded columns: space for the values of planted rows, and removal of the values of dropped rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leakage_tasks.data.layout import Layout

_NARROW = 32
"""An index width in bits that is always sufficient for the canaries."""


def with_wide_indices(schema: Any, layout: Layout) -> Any:
    """Return the schema with 32-bit indices in dictionary columns that may get new values.

    A category of pandas has 8-bit indices up to 128 values; readers reject a file with more values.
    """
    for index, field in enumerate(schema):
        new_values = field.name in (layout.text, layout.source) or not field.nullable
        if pa.types.is_dictionary(field.type) and new_values and field.type.index_type.bit_width < _NARROW:
            wider = pa.dictionary(pa.int32(), field.type.value_type, field.type.ordered)
            schema = schema.set(index, field.with_type(wider))
    return schema


def without_unused(batch: Any, layout: Layout) -> Any:
    """Return the batch without unused dictionary entries in the text and source columns.

    A file stores such entries, so it would still contain the text of a dropped row.
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
    """Return a one-row record batch with the dictionaries of ``batch``, or its own for values missing there."""
    if not any(_has_dictionary(field.type) for field in row.schema):
        return row
    columns = [
        _in_dictionary_of(column, reference) for column, reference in zip(row.columns, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=row.schema)


def _in_dictionary_of(column: Any, reference: Any) -> Any:
    if not _has_dictionary(column.type):
        return column
    if column.null_count:
        return reference.take(pa.array([None], pa.int64()))
    if pa.types.is_dictionary(column.type):
        index = pc.index_in(column.dictionary_decode(), reference.dictionary)
        if not index.null_count:
            return pa.DictionaryArray.from_arrays(
                index.cast(column.type.index_type), reference.dictionary, ordered=column.type.ordered
            )
    return column


def _has_dictionary(kind: Any) -> bool:
    children = range(kind.num_fields)
    return pa.types.is_dictionary(kind) or any(_has_dictionary(kind.field(index).type) for index in children)
