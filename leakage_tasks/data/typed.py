"""The bases of formats with Arrow's typed columns; copies keep schema and metadata."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.data.base import Format
from leakage_tasks.data.batches import first_column, splice, with_additions, without_rows
from leakage_tasks.data.dictionaries import with_wide_indices
from leakage_tasks.data.layout import (
    Additions,
    Columns,
    Layout,
    Places,
    Points,
    check_columns,
    check_once,
    choose_texts,
    note_label,
)
from leakage_tasks.data.turns import KEYS, SHAREGPT_NAMES, Dialect, first_dialect


class ArrowFormat(Format):
    """Base of formats with typed columns; class names of ``datasets`` are read from the schema's metadata."""

    @abstractmethod
    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """Return the Arrow schema and the number of rows. Raises PlantingError for damaged data."""

    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read schema and label column. Raises PlantingError if they are damaged, or a column or split is missing."""
        schema, rows = self.schema_and_rows(source, wanted)
        layout = layout_of(source, schema, rows, wanted)
        for column in layout.dialects:
            # The schema has the fields of a turn; the first conversation has the names of roles.
            if (dialect := first_dialect(self.values(source, layout, wanted, column))) is not None:
                layout.dialects[column] = dialect
        if wanted.label is not None:
            names = _class_names(schema, wanted.label)
            layout.labels = {str(number): number for number in range(len(names))}
            layout.labels |= {name: number for number, name in enumerate(names)}
            for value in () if names else self.values(source, layout, wanted, wanted.label):
                note_label(layout.labels, value)
        return layout


class BatchFormat(ArrowFormat):
    """Base of formats that are read and written as a stream of record batches."""

    @abstractmethod
    def batches(self, source: Path, column: str | None = None) -> Iterator[Any]:
        """Yield record batches of all columns, or of one column in pieces that fit in memory.

        Raises PlantingError for damaged data.
        """

    @abstractmethod
    def save(self, batches: Iterator[Any], output: Path, schema: Any, source: Path) -> None:
        """Write record batches to a new file, in the same way as the file ``source``."""

    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy batch by batch; other columns of an inserted row are null, or empty if null is not allowed."""
        schema = with_wide_indices(self.schema_and_rows(source, wanted)[0], layout)
        self.save(splice(self.batches(source), points, schema, source), output, schema, source)

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Copy batch by batch; in a changed row, other columns stay unchanged."""
        schema, _ = self.schema_and_rows(source, wanted)
        self.save(with_additions(self.batches(source), layout, additions), output, schema, source)

    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy batch by batch without the rows ``dropped``."""
        schema, _ = self.schema_and_rows(source, wanted)
        self.save(without_rows(self.batches(source), dropped, layout), output, schema, source)

    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """Yield a column's values, read in pieces that fit in memory."""
        row = 0
        for batch in self.batches(path, column):
            yield from first_column(batch, path, row)
            row += len(batch)


def layout_of(source: Path, schema: Any, rows: int, wanted: Columns) -> Layout:
    """Return the layout of data with an Arrow schema.

    Args:
        source: The data, for error messages.
        schema: The schema.
        rows: The number of rows.
        wanted: The columns that the user requested.

    Raises:
        PlantingError: If a column is missing, occurs twice or holds no text.
    """
    for name in schema.names:
        check_once(source, schema.names, name)
    text, shape = choose_texts(source, schema.names, wanted)
    check_columns(source, schema.names, wanted, text)
    kinds = {name: schema.field(name).type for name in schema.names}
    dialects = {name: dialect for name, kind in kinds.items() if (dialect := _dialect_of(kind)) is not None}
    if shape is not None and not all(name in dialects or _holds_text(kinds[name]) for name in shape.needed):
        shape = None
    for name, expected in ((text, "text or chat turns"), (wanted.source, "text")):
        if name is None or (name == text and name in dialects) or _holds_text(kinds[name]):
            continue
        if pa.types.is_null(kinds[name]):
            raise PlantingError(
                f"{source}: column {name!r} has the type null, so no row has a value: choose another column, leave the "
                "file out, or write it with the type of your other files"
            )
        raise PlantingError(
            f"{source}: column {name!r} holds {kinds[name]}, expected {expected}: choose another column"
        )
    layout = Layout(rows, tuple(schema.names), text, wanted.label, wanted.source, text in dialects, shape=shape)
    parts = () if shape is None else shape.parts(schema.names)
    layout.parts = tuple(name for name in parts if name in dialects or _holds_text(kinds[name]))
    layout.dialects = {name: dialects[name] for name in (text, *layout.parts) if name in dialects}
    return layout


def _class_names(schema: Any, column: str) -> list[str]:
    """Return the names of a ClassLabel column from the metadata that ``datasets`` writes; empty for other columns."""
    try:
        feature = parse_json(schema.metadata[b"huggingface"])["info"]["features"][column]
        return list(feature["names"]) if feature["_type"] == "ClassLabel" else []
    except (KeyError, TypeError, ValueError):
        return []


def _holds_text(kind: Any) -> bool:
    return _is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_list(kind: Any) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _dialect_of(kind: Any) -> Dialect | None:
    """Return the dialect of conversations in a column of this type; None for other columns."""
    if not (_is_list(kind) and pa.types.is_struct(kind.value_type)):
        return None
    fields = {field.name: field.type for field in kind.value_type.fields}
    for keys in KEYS:
        if fields.keys() >= set(keys):
            content = fields[keys[1]]
            if _holds_text(content) or _holds_parts(content):
                names = SHAREGPT_NAMES if keys == KEYS[1] else Dialect().names
                return Dialect(keys, names, not _holds_text(content))
    return None


def _holds_parts(kind: Any) -> bool:
    """Return True if the contents of turns are lists of parts with text fields."""
    if not (_is_list(kind) and pa.types.is_struct(kind.value_type)):
        return False
    return any(field.name == "text" and _holds_text(field.type) for field in kind.value_type.fields)
