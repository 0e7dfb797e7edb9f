"""Documents of any text data: a row, a whole text file, or a file of a folder."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import LeakageError, OptionError
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.signal_cleanup import temporary_folder
from leakage_tasks.core.stable_inputs import FileStates
from leakage_tasks.data import Columns, Format, format_of
from leakage_tasks.data.conversations import ChatRow, chat_rows, holds_conversations
from leakage_tasks.data.hub import hub_shards, is_hub
from leakage_tasks.data.layout import MOST_NAMED, Layout
from leakage_tasks.data.shards import shards_of
from leakage_tasks.pairs.index.store import reject_index
from leakage_tasks.pairs.pair import ALL, check_split, split_of
from leakage_tasks.pairs.rendering import Rendering, check_conversations
from leakage_tasks.pairs.source import state_of
from leakage_tasks.pairs.texts import saved_splits

HUB_SPLIT = "train"
"""The split of hub data that ``split=all`` reads, because a hub data set may be too large to read in full."""


@dataclass(frozen=True)
class TextDocument:
    """A document: its text, the value of its ``field``, and its conversation if it is to be rendered.

    Turns of a chat are joined by line breaks in ``plain``.
    """

    plain: str
    value: Any = None
    row: ChatRow | None = None

    def text(self, rendering: Rendering | None) -> str:
        """Return the text that a model reads. Raises OptionError for turns that the chat template refuses."""
        return self.plain if rendering is None or self.row is None else rendering.text(self.row)

    @property
    def content(self) -> str:
        """The turns, the tools and the arguments as JSON, whatever the template; a plain text itself."""
        if self.row is None:
            return self.plain
        parts = [self.row.turns, self.row.tools, *([self.row.arguments] if self.row.arguments else [])]
        return json.dumps(parts, sort_keys=True)

    @property
    def compared(self) -> str:
        """The text that no document of the controls may contain: without turns of the system, which may be equal in all
        conversations."""
        if self.row is None:
            return self.plain
        return "\n".join(turn.get("content", "") for turn in self.row.turns if turn["role"] != "system")


def document_blocks(path: Path, column: str) -> Iterator[Iterable[str]]:
    """Yield each document of all splits as blocks that form its text; a large ``.txt`` file has several.

    A document's blocks must be read before the next document. Arguments and errors as for :func:`read_documents`.
    """
    return (blocks for blocks, _, _ in _documents(path, column, ALL))


def read_documents(
    path: Path, column: str, split: str = ALL, field: str | None = None, chats: bool = False
) -> Iterator[TextDocument]:
    """Yield each document.

    A row of a data set is a document, and so is a whole ``.txt`` file. The files of a folder are read in the order of
    their names.

    Args:
        path: A file, a folder of files, a folder saved by ``datasets``, or ``hub:NAME``.
        column: The text column.
        split: The split to read, or ``all``; of hub data, ``all`` is the split ``train``.
        field: A further column.
        chats: True if the rows are conversations to be rendered.

    Raises:
        OptionError: The data have no such split, are an index, hold plain text in place of chats, or both.
        PlantingError: The data cannot be read.
    """
    every = _documents(path, column, split, field, chats)
    return (TextDocument("".join(blocks), value, row) for blocks, value, row in every)


_Part = tuple[Iterable[str], Any, ChatRow | None]


def hold_chats(data: str, column: str, split: str = ALL) -> bool:
    """Return True if some rows are conversations, which trainers render; of hub data, only the schema is read.

    False for data that cannot be read, because their reader raises the error.
    """
    path = Path(data)
    try:
        return _hold_chats(path, column, split, state_of(path))
    except LeakageError:
        return False


@lru_cache(maxsize=16)
def _hold_chats(path: Path, column: str, split: str, state: FileStates) -> bool:
    with closing(_files(path, column, split)) as every:
        for file, wanted in islice(every, 1) if is_hub(path) else every:
            reader = format_of(file)
            if not reader.running and holds_conversations(reader.peek(file, wanted)):
                return True
    return False


def _documents(path: Path, column: str, split: str, field: str | None = None, chats: bool = False) -> Iterator[_Part]:
    """Yield the blocks of each document, the value of its ``field``, and its conversation if ``chats``."""
    first: tuple[str, str] | None = None
    for file, wanted in _files(path, column, split):
        # A file of the hub is a temporary pointer.
        name = f"{path} ({file.stem})" if is_hub(path) else str(file)
        reader = format_of(file)
        layout = reader.survey(file, wanted)
        # A file of JSON lines without any text is of no kind.
        if layout.characters != 0:
            kind = "chats" if holds_conversations(layout) else "plain text"
            first = first or (name, kind)
            if kind != first[1]:
                _report_kinds(path, name, kind, first, chats)
        yield from _rows_of(reader, file, layout, wanted, field, chats, name)


def _report_kinds(path: Path, name: str, kind: str, first: tuple[str, str], chats: bool) -> None:
    """Warn that data hold chats and plain text. Raises OptionError if chats are rendered."""
    if not chats:
        warn_once(f"{path}: some files hold chats and others plain text: the turns of a chat are joined by line breaks")
        return
    raise OptionError(
        f"{name}: holds {kind}, and {first[0]} of the same data holds {first[1]}: read them as two data sets"
    )


def _files(path: Path, column: str, split: str) -> Generator[tuple[Path, Columns], None, None]:
    """Yield each file or data set with the columns and the split to read."""
    if is_hub(path):
        with temporary_folder() as scratch:
            shards = hub_shards(path, Columns(column, split=HUB_SPLIT if split == ALL else split), scratch)
            yield from ((shards.path(name), Columns(column, split=shards.split)) for name in shards.names)
        return
    check_split(split)
    reject_index(path)
    for name in _splits(path, split):
        found = shards_of(path)
        yield from ((found.path(shard), Columns(column, split=name)) for shard in found.names)


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


def _rows_of(
    reader: Format, path: Path, layout: Layout, wanted: Columns, field: str | None, chats: bool, name: str
) -> Iterator[_Part]:
    _check_field(path, reader.running, layout, field)
    if chats and layout.characters != 0:
        check_conversations(layout, path)
    texts = reader.texts(path, layout, wanted)
    if reader.running:
        yield ("\n".join(turns) for turns in texts), None, None
        return
    columns: list[Iterator[Any]] = []
    if field is not None:
        columns.append(reader.values(path, layout, wanted, field))
    if chats:
        columns.append(chat_rows(reader, path, layout, wanted, name))
    for turns, *more in zip(texts, *columns, strict=True):
        yield ["\n".join(turns)], more[0] if field is not None else None, more[-1] if chats else None


def _check_field(path: Path, is_running: bool, layout: Layout, field: str | None) -> None:
    if field is not None and (is_running or field not in layout.columns):
        there = ", ".join(layout.columns[:MOST_NAMED]) or "no columns"
        raise OptionError(f"{path}: has no field {field!r} (it has {there}): name another field, or leave it out")
