"""What parquet files and saved folders share: typed columns in Arrow's terms."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import Columns, Layout, check_label_column, check_source_column, choose_text_column


def layout_of(source: Path, schema: Any, rows: int, wanted: Columns) -> Layout:
    """A layout from an Arrow schema. Raises PlantingError if a column is missing, there twice or holds no text."""
    twice = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if twice is not None:
        raise PlantingError(f"{source}: has two columns called {twice!r}: give each a name of its own")
    text = choose_text_column(source, schema.names, wanted)
    check_label_column(source, schema.names, wanted, text)
    check_source_column(source, schema.names, wanted, text)
    chat = _holds_chat(schema.field(text).type)
    if not chat and not _holds_text(schema.field(text).type):
        found = schema.field(text).type
        raise PlantingError(f"{source}: column {text!r} holds {found}, expected text or chat turns: name another")
    if wanted.source is not None and not _holds_text(schema.field(wanted.source).type):
        found = schema.field(wanted.source).type
        raise PlantingError(f"{source}: column {wanted.source!r} holds {found}, expected text: name another")
    return Layout(rows, tuple(schema.names), text, wanted.label, wanted.source, chat)


def named_classes(names: list[str]) -> dict[str, Any]:
    """Classes of a ClassLabel column: by name, or by number as a string."""
    return {**{str(number): number for number in range(len(names))}, **{name: at for at, name in enumerate(names)}}


def _holds_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _holds_chat(kind: Any) -> bool:
    import pyarrow as pa

    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    turn = kind.value_type
    if not pa.types.is_struct(turn):
        return False
    fields = {field.name: field.type for field in turn.fields}
    return {"role", "content"} <= fields.keys() and _holds_text(fields["content"])
