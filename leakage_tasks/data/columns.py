"""What parquet files and saved folders share: typed columns in Arrow's terms."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.data.base import Columns, Format, Layout, check_columns, choose_text_column, note_label


class ArrowFormat(Format):
    """Typed columns; class names that 'datasets' left in the schema's metadata are understood."""

    @abstractmethod
    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """The Arrow schema and the number of rows. Raises PlantingError for what is damaged."""

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read schema and label column. Raises PlantingError where they are damaged, or a column or split missing."""
        schema, rows = self.schema_and_rows(source, wanted)
        layout = _layout_of(source, schema, rows, wanted)
        if wanted.label is not None:
            names = _class_names(schema, wanted.label)
            layout.labels = {str(number): number for number in range(len(names))}
            layout.labels |= {name: number for number, name in enumerate(names)}
            for value in () if names else self.values(source, layout, wanted, wanted.label):
                note_label(layout.labels, value)
        return layout


def _layout_of(source: Path, schema: Any, rows: int, wanted: Columns) -> Layout:
    """A layout from an Arrow schema. Raises PlantingError if a column is missing, there twice or holds no text."""
    twice = next((name for name, times in Counter(schema.names).items() if times > 1), None)
    if twice is not None:
        raise PlantingError(f"{source}: has two columns called {twice!r}: give each a name of its own")
    text = choose_text_column(source, schema.names, wanted)
    check_columns(source, schema.names, wanted, text)
    chat = _holds_chat(schema.field(text).type)
    for name, expected in ((text, "text or chat turns"), (wanted.source, "text")):
        if name is None or (chat and name == text):
            continue
        if not _holds_text(found := schema.field(name).type):
            raise PlantingError(f"{source}: column {name!r} holds {found}, expected {expected}: name another")
    return Layout(rows, tuple(schema.names), text, wanted.label, wanted.source, chat)


def _class_names(schema: Any, column: str) -> list[str]:
    """Names of a ClassLabel column, from the metadata 'datasets' writes; none for other columns."""
    try:
        feature = parse_json(schema.metadata[b"huggingface"])["info"]["features"][column]
        return list(feature["names"]) if feature["_type"] == "ClassLabel" else []
    except (KeyError, TypeError, ValueError):
        return []


def _holds_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _holds_chat(kind: Any) -> bool:
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    turn = kind.value_type
    if not pa.types.is_struct(turn):
        return False
    fields = {field.name: field.type for field in turn.fields}
    return {"role", "content"} <= fields.keys() and _holds_text(fields["content"])
