"""Dictionary-encoded columns: an Arrow file has one a column, which a row that is put in has to use too."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def in_dictionaries_of(batch: Any, row: Any) -> Any:
    """A record batch of one row with the dictionaries of another; its own where a value is in none of those."""
    if not any(_has_dictionary(field.type) for field in row.schema):
        return row
    columns = [_as_beside(own, there) for own, there in zip(row.columns, batch.columns, strict=True)]
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
