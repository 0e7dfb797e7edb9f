"""The base of formats with Arrow's typed columns, and the format of parquet files; copies keep schema and metadata."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.inputs import parse_json
from leakage_tasks.data.additions import with_addition
from leakage_tasks.data.base import Format, register_format
from leakage_tasks.data.batches import first_column, open_parquet, parquet_batches
from leakage_tasks.data.dictionaries import in_dictionaries_of, with_wide_indices, without_unused
from leakage_tasks.data.layout import (
    Additions,
    Columns,
    Layout,
    Places,
    Points,
    Row,
    check_columns,
    check_once,
    choose_texts,
    lost_rows,
    note_label,
)
from leakage_tasks.data.turns import KEYS, SHAREGPT_NAMES, Dialect, first_dialect

GROUP_BYTES = 32 << 20


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


@register_format("parquet")
class ParquetFormat(BatchFormat):
    """The format of ``.parquet`` files."""

    name = "parquet"

    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """Return the schema and the number of rows from the file's footer."""
        with open_parquet(source) as table:
            return table.schema_arrow, table.metadata.num_rows

    def batches(self, source: Path, column: str | None = None) -> Iterator[Any]:
        """Yield record batches in pieces that fit in memory."""
        return parquet_batches(source, column)

    def save(self, batches: Iterator[Any], output: Path, schema: Any, source: Path) -> None:
        """Write record batches with the compression of ``source``."""
        write_batches(batches, output, schema, compression_of(source))

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Copy batch by batch; in a changed row, other columns stay unchanged."""
        schema, _ = self.schema_and_rows(source, wanted)
        self.save(with_additions(self.batches(source), layout, additions), output, schema, source)


def write_batches(batches: Iterator[Any], output: Path, schema: Any, compression: str) -> None:
    """Write record batches to a new file, in row groups of 32 MiB."""
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
    """Return the compression of a file's first column, by its name in the parquet writer.

    The file must have been read before: pyarrow ends the process if a column's metadata is damaged.
    """
    with open_parquet(source) as table:
        if not (table.metadata.num_row_groups and table.metadata.num_columns):
            return "snappy"
        codec = table.metadata.row_group(0).column(0).compression.lower()
    return "none" if codec == "uncompressed" else codec


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
