"""Documents of any text data: a row, a whole text file, or a file of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.hub import hub_shards, is_hub
from leakage_tasks.data.layout import MOST_NAMED
from leakage_tasks.data.shards import shards_of
from leakage_tasks.pairs.index.store import reject_index
from leakage_tasks.pairs.pair import ALL, check_split, split_of
from leakage_tasks.pairs.texts import saved_splits

HUB_SPLIT = "train"
"""The split of hub data that ``split=all`` reads, because a hub data set may be too large to read in full."""


def document_texts(path: Path, column: str, split: str = ALL) -> Iterator[str]:
    """Yield the text of each document; see :func:`document_rows`."""
    return (text for text, _ in document_rows(path, column, split))


def document_blocks(path: Path, column: str) -> Iterator[Iterable[str]]:
    """Yield each document of all splits as blocks that form its text; a large ``.txt`` file has several.

    A document's blocks must be read before the next document. Arguments and errors as for :func:`document_rows`.
    """
    return (blocks for blocks, _ in _documents(path, column, ALL))


def document_rows(path: Path, column: str, split: str = ALL, field: str | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the text of each document, and the value of its ``field``, None without one.

    A row of a data set is a document, and so is a whole ``.txt`` file. The files of a folder are read in the order of
    their names. Turns of a chat are joined by line breaks.

    Args:
        path: A file, a folder of files, a folder saved by ``datasets``, or ``hub:NAME``.
        column: The text column.
        split: The split to read, or ``all``; of hub data, ``all`` is the split ``train``.
        field: A further column.

    Raises:
        OptionError: The data have no such split, or are an index.
        PlantingError: The data cannot be read.
    """
    return (("".join(blocks), value) for blocks, value in _documents(path, column, split, field))


def _documents(path: Path, column: str, split: str, field: str | None = None) -> Iterator[tuple[Iterable[str], Any]]:
    """Yield the blocks of each document, and the value of its ``field``."""
    if is_hub(path):
        with temporary_folder() as scratch:
            shards = hub_shards(path, Columns(column, split=HUB_SPLIT if split == ALL else split), scratch)
            for name in shards.names:
                yield from _rows_of(shards.path(name), Columns(column, split=shards.split), field)
        return
    check_split(split)
    reject_index(path)
    for name in _splits(path, split):
        shards_ = shards_of(path)
        for shard in shards_.names:
            yield from _rows_of(shards_.path(shard), Columns(column, split=name), field)


def _splits(path: Path, split: str) -> list[str]:
    """Return the names of the chosen splits; data without splits have the name of the default split."""
    names = saved_splits(path)
    chosen = [name for name in names if split in (ALL, split_of(name))]
    if not names and split == ALL:
        return [Columns().split]
    if not chosen:
        there = ", ".join(names) or "one set without splits"
        raise OptionError(f"{path}: split={split} is empty (the data have: {there}): use another split, or {ALL}")
    return chosen


def _rows_of(path: Path, wanted: Columns, field: str | None) -> Iterator[tuple[Iterable[str], Any]]:
    reader = format_of(path)
    layout = reader.survey(path, wanted)
    texts = reader.texts(path, layout, wanted)
    if field is not None and (reader.running or field not in layout.columns):
        there = ", ".join(layout.columns[:MOST_NAMED]) or "no columns"
        raise OptionError(f"{path}: has no field {field!r} (it has {there}): name another field, or leave it out")
    if reader.running:
        yield ("\n".join(turns) for turns in texts), None
    elif field is None:
        yield from ((["\n".join(turns)], None) for turns in texts)
    else:
        values = reader.values(path, layout, wanted, field)
        yield from ((["\n".join(turns)], value) for turns, value in zip(texts, values, strict=True))
