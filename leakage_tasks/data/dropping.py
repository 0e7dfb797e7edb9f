"""Rows of a dataset as samples: the text of each, and a copy of the dataset without some of them."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from leakage_tasks.data import Columns, Layout, format_of
from leakage_tasks.data.batches import open_parquet, parquet_batches
from leakage_tasks.data.commas import _rows
from leakage_tasks.data.conll import ConllFormat, pieces
from leakage_tasks.data.lines import check_utf8, open_source
from leakage_tasks.data.nlu_folder import NLUFolderFormat
from leakage_tasks.data.parquet import compression_of, write_batches
from leakage_tasks.data.saved import _choose_split, _load, _quiet
from leakage_tasks.data.utterances import FILES


def row_texts(source: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
    """The text of every row, chat turns as one text parted by line ends; a line of a text file without its ending."""
    kind = format_of(source)
    if not kind.running:
        yield from ("\n".join(turns) for turns in kind.texts(source, layout, wanted))
        return
    for line, _ in _lines(source, layout):
        yield line.rstrip(b"\r\n").decode()


def write_without(source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Collection[int]) -> None:
    """Copy ``source`` to ``output`` without the rows ``dropped``, counted from 0.

    The rows that stay, what stands before the first of them, and blank lines between rows are copied byte for byte, and
    so are comments in a ``.conll`` file that a blank line parts from the next utterance; a dropped utterance's own
    comments and blank line go with it. Parquet files and saved folders keep schema, metadata and the other splits.
    """
    if isinstance(format_of(source), NLUFolderFormat):
        _write_nlu_folder(source, output, dropped)
    elif source.is_dir():
        _write_saved(source, output, wanted, dropped)
    elif source.suffix.lower() == ".parquet":
        _write_parquet(source, output, dropped)
    else:
        _write_lines(source, output, layout, dropped)


def _write_lines(source: Path, output: Path, layout: Layout, dropped: Collection[int]) -> None:
    row = 0
    with output.open("wb") as out:
        out.write(layout.head)
        for raw, is_row in _lines(source, layout):
            if not (is_row and row in dropped):
                out.write(raw)
            row += is_row


def _lines(source: Path, layout: Layout) -> Iterator[tuple[bytes, bool]]:
    """What a file holds after its head, record by record, each with whether it is a row or a blank line."""
    if source.suffix.lower() in (".csv", ".tsv"):
        yield from ((raw.encode(), bool(values)) for raw, values in _rows(source, layout))
        return
    kind = format_of(source)
    every = kind.running
    with open_source(source) as stream:
        stream.seek(len(layout.head))
        if isinstance(kind, ConllFormat):
            yield from _blocks(stream)
        else:
            yield from ((line, every or not line.isspace()) for line in stream)


def _blocks(stream: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The utterances of a ``.conll`` file, each with the blank line after it, and what stands between and after them.

    A comment that a blank line follows is no utterance's own.
    """
    held = b""
    for piece, ends_row in pieces(stream):
        held += piece
        if ends_row or not piece.decode().strip():
            yield held, ends_row
            held = b""
    yield held, False


def _write_nlu_folder(source: Path, output: Path, dropped: Collection[int]) -> None:
    output.mkdir()
    for name in FILES:
        head = check_utf8(source / name).head
        with open_source(source / name) as stream, (output / name).open("wb") as out:
            stream.seek(len(head))
            out.write(head)
            out.writelines(line for row, line in enumerate(stream) if row not in dropped)
        shutil.copymode(source / name, output / name)


def _write_parquet(source: Path, output: Path, dropped: Collection[int]) -> None:
    with open_parquet(source) as table:
        schema = table.schema_arrow
    write_batches(_kept(parquet_batches(source), dropped), output, schema, compression_of(source))


def _kept(batches: Iterator[Any], dropped: Collection[int]) -> Iterator[Any]:
    row = 0
    for batch in batches:
        yield batch.take([place for place in range(len(batch)) if row + place not in dropped])
        row += len(batch)


def _write_saved(source: Path, output: Path, wanted: Columns, dropped: Collection[int]) -> None:
    from datasets import DatasetDict

    with _quiet():
        loaded = _load(source)
        data = _choose_split(source, loaded, wanted.split)
        kept = data.select([row for row in range(len(data)) if row not in dropped])
        if isinstance(loaded, DatasetDict):
            kept = DatasetDict({**loaded, wanted.split: kept})
        kept.save_to_disk(output)
