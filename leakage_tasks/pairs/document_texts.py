"""Documents of any text data: a row, a whole text file, or a file of a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.data import Columns, format_of
from leakage_tasks.data.hub import hub_shards, is_hub
from leakage_tasks.data.shards import shards_of
from leakage_tasks.pairs.pair import ALL, check_split, split_of
from leakage_tasks.pairs.texts import saved_splits

HUB_SPLIT = "train"
"""The split of hub data that ``split=all`` reads, because a hub data set may be too large to read in full."""


def document_texts(path: Path, column: str, split: str = ALL) -> Iterator[str]:
    """Yield the text of each document.

    A row of a data set is a document, and so is a whole ``.txt`` file. The files of a folder are read in the order of
    their names. Turns of a chat are joined by line breaks.

    Args:
        path: A file, a folder of files, a folder saved by ``datasets``, or ``hub:NAME``.
        column: The text column.
        split: The split to read, or ``all``; of hub data, ``all`` is the split ``train``.

    Raises:
        OptionError: The data have no such split.
        PlantingError: The data cannot be read.
    """
    if is_hub(path):
        with temporary_folder() as scratch:
            shards = hub_shards(path, Columns(column, split=HUB_SPLIT if split == ALL else split), scratch)
            for name in shards.names:
                yield from _texts_of(shards.path(name), Columns(column, split=shards.split))
        return
    check_split(split)
    for name in _splits(path, split):
        shards_ = shards_of(path)
        for shard in shards_.names:
            yield from _texts_of(shards_.path(shard), Columns(column, split=name))


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


def _texts_of(path: Path, wanted: Columns) -> Iterator[str]:
    reader = format_of(path)
    texts = reader.texts(path, reader.survey(path, wanted), wanted)
    if reader.running:
        yield "".join("\n".join(turns) for turns in texts)
    else:
        yield from map("\n".join, texts)
