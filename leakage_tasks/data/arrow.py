"""Arrow IPC files: streams, the format of the caches of ``datasets``, and files, which begin with ``ARROW1``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.log import first_line
from leakage_tasks.data.base import register_format
from leakage_tasks.data.batches import small_pieces
from leakage_tasks.data.layout import Columns
from leakage_tasks.data.lines import open_source
from leakage_tasks.data.typed import BatchFormat

MAGIC = b"ARROW1"


@register_format("arrow")
class ArrowFileFormat(BatchFormat):
    """The format of ``.arrow`` files; a copy is a stream or a file, like the source."""

    name = "arrow"

    def schema_and_rows(self, source: Path, wanted: Columns) -> tuple[Any, int]:
        """Return the schema and the number of rows; validate every batch, because pyarrow does not check offsets."""
        schema = schema_of(source)
        return schema, sum(len(batch) for batch in _batches(source))

    def batches(self, source: Path, column: str | None = None) -> Iterator[Any]:
        """Yield validated record batches as in the file, or pieces of one column. Raises PlantingError for damage."""
        row = 0
        for batch in _batches(source):
            yield from (batch,) if column is None else small_pieces(batch.select([column]), source, row)
            row += len(batch)

    def save(self, batches: Iterator[Any], output: Path, schema: Any, source: Path) -> None:
        """Write a stream or a file, like ``source``."""
        make = pa.ipc.new_file if _is_file(source) else pa.ipc.new_stream
        with output.open("wb") as plain, make(plain, schema) as writer:
            for batch in batches:
                try:
                    writer.write_batch(batch)
                except pa.ArrowInvalid as error:
                    problem = f"a row cannot be inserted ({first_line(error)})"
                    raise PlantingError(f"{source}: {problem}: save it as an Arrow stream") from None


def schema_of(source: Path) -> Any:
    """Return the schema of an Arrow stream or file. Raises PlantingError for other files."""
    with _reader(source) as reader:
        return reader.schema


def _is_file(source: Path) -> bool:
    with closing(open_source(source)) as stream:
        return stream.read(len(MAGIC)) == MAGIC


@contextmanager
def _reader(source: Path) -> Iterator[Any]:
    with closing(open_source(source)) as stream:
        try:
            opened = pa.ipc.open_file(stream) if _is_file(source) else pa.ipc.open_stream(stream)
        except (pa.ArrowException, OSError) as error:
            raise PlantingError(f"{source}: not an Arrow file ({first_line(error)}): check the file") from None
        with opened as reader:
            yield reader


def _batches(source: Path) -> Iterator[Any]:
    row = 0
    with _reader(source) as reader:
        several = hasattr(reader, "num_record_batches")
        indices = iter(range(reader.num_record_batches)) if several else None
        while True:
            try:
                batch = reader.read_next_batch() if indices is None else reader.get_batch(next(indices))
                batch.validate(full=True)
            except StopIteration:
                return
            except (pa.ArrowException, OSError) as error:
                why = first_line(error)
                raise PlantingError(f"{source}: damaged after row {row} ({why}): check the file") from None
            yield batch
            row += len(batch)
