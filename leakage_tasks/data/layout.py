"""What a dataset is like: its columns, which of them have which use, and a canary's row among its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.chat import Role, conversation

Row = dict[str, Any]
"""A row to insert: a value a column, None where the canary has nothing to say."""

Points = Sequence[tuple[int, Row]]
"""Rows to insert, each with its gap (gap g is after the first g rows), sorted by gap."""

Places = Collection[int]
"""Rows, counted from 0."""

Additions = Mapping[int, tuple[int, str]]
"""Texts to end chat turns with: by row, which of its turns, and the text."""

TEXT, MESSAGES = "text", "messages"

MAX_CLASSES = 100_000

MOST_NAMED = 20
"""Columns that an error lists."""


def lost_rows(left: int) -> PlantingError:
    """The error of data of which only so many rows are left as they are copied."""
    return PlantingError(f"the input lost rows while it was being read ({left} left): plant when nobody writes to it")


class NoColumnError(PlantingError):
    """A column that is asked for and missing; ``nameless`` is the error without the columns there are."""

    def __init__(self, path: Path, name: str, columns: Sequence[str], option: str) -> None:
        missing, remedy = f"no column {name!r}", "name one with {}"
        more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
        there = f"(it has {', '.join(columns[:MOST_NAMED])}{more})"
        super().__init__(subject=str(path), problem=f"{missing} {there}", remedy=remedy, option=option)
        self.nameless = PlantingError(subject=str(path), problem=missing, remedy=remedy, option=option)


class Plantable(Protocol):
    """What becomes a row: a text, with the class, tags and source sentence that data of some kinds ask for."""

    @property
    def id(self) -> str:
        """By which errors name it."""

    @property
    def text(self) -> str:
        """As it is planted."""

    @property
    def label(self) -> str | None:
        """Its class or intent."""

    @property
    def tags(self) -> tuple[str, ...] | None:
        """A slot tag for each word."""

    @property
    def source_text(self) -> str | None:
        """What it is the translation of."""


@dataclass(frozen=True)
class Columns:
    """What the user asked for: column of the text, of the label, split of a folder of splits, column of the source.

    ``role`` is whose turn a canary is where texts are chat turns; None for the assistant's, or none.
    """

    text: str = TEXT
    label: str | None = None
    split: str = "train"
    source: str | None = None
    role: Role | None = None


@dataclass
class Layout:
    """What a dataset is like."""

    new_labels: ClassVar[bool] = False
    """Whether a canary may have a class that no row has."""

    rows: int
    """How many there are."""
    columns: tuple[str, ...]
    """Their names."""
    text: str
    """The column of the text."""
    label: str | None = None
    """The column of the class."""
    source: str | None = None
    """The column of the source sentence."""
    chat: bool = False
    """Whether texts are chat turns."""
    role: Role = "assistant"
    """Whose turn a canary is, in such."""
    labels: dict[str, Any] = field(default_factory=dict)
    """A class as a manifest names it → the value its column holds."""
    head: bytes = b""
    """What stands before the first row of a file of lines."""
    newline: bytes = b"\n"
    """How its lines end."""
    delimiter: str = ","
    """What parts its columns."""
    unpacked_sha256: str | None = None
    """Of a packed file, the SHA-256 of what it holds."""
    characters: int | None = None
    """Those of all texts, where they were counted."""

    def row(self, canary: Plantable) -> Row:
        """The canary as a row. Raises PlantingError if the label or source column cannot be filled."""
        row: Row = dict.fromkeys(self.columns)
        row[self.text] = conversation(canary.text, self.role) if self.chat else canary.text
        if self.label is not None:
            row[self.label] = self._class_of(canary)
        if self.source is not None:
            if canary.source_text is None:
                raise PlantingError(
                    f"{canary.id} has no source sentence for column {self.source!r}: make canaries with --source"
                )
            row[self.source] = canary.source_text
        return row

    def _class_of(self, canary: Plantable) -> Any:
        if canary.label is None:
            raise PlantingError(f"{canary.id} has no label for column {self.label!r}: name one with --label")
        if canary.label not in self.labels:
            names = list(self.labels)
            some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise PlantingError(
                f"{canary.id}: label {canary.label!r} is not in column {self.label!r} (it holds {some})"
            )
        return self.labels[canary.label]


def choose_text_column(path: Path, columns: Sequence[str], wanted: Columns) -> str:
    """The text column: the one asked for, or ``messages`` where the default ``text`` is missing."""
    if wanted.text in columns:
        return wanted.text
    if wanted.text == TEXT and MESSAGES in columns:
        return MESSAGES
    raise NoColumnError(path, wanted.text, columns, "text_column")


def check_columns(path: Path, columns: Sequence[str], wanted: Columns, text: str) -> None:
    """Raise PlantingError unless the text, label and source columns are there, once each, and are different columns."""
    check_once(path, columns, text)
    uses = {text: "text"}
    for name, use in ((wanted.label, "label"), (wanted.source, "source")):
        if name is None:
            continue
        option = f"{use}_column"
        if name not in columns:
            raise NoColumnError(path, name, columns, option)
        if name in uses:
            pair = f"{uses[name]} and {use}" if use == "label" else f"{use} and {uses[name]}"
            problem = f"column {name!r} cannot be {pair}"
            raise PlantingError(subject=str(path), problem=problem, remedy="name another with {}", option=option)
        check_once(path, columns, name)
        uses[name] = use


def check_once(path: Path, columns: Sequence[str], name: str) -> None:
    """Raise PlantingError if several columns have this name, as no reader can say which is meant."""
    if columns.count(name) > 1:
        raise PlantingError(f"{path}: has two columns called {name!r}: give each a name of its own")


def note_label(labels: dict[str, Any], value: Any) -> None:
    """Remember a class seen in the label column."""
    if isinstance(value, str | int | float) and len(labels) < MAX_CLASSES:
        labels.setdefault(str(value), value)
