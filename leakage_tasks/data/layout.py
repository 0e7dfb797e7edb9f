"""The layout of a dataset: its columns and their uses, and the row that holds a copy of a canary."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, Self, get_args

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.chat import USER_TURN, Role, conversation
from leakage_tasks.data.shapes import SHAPES, RowCopy, RowShape, filled
from leakage_tasks.data.turns import Dialect

Row = dict[str, Any]
"""A row to insert: a value for each column, None if the canary has no value for it."""

Points = Sequence[tuple[int, Row]]
"""Rows to insert, each with its gap (gap g is after the first g rows), sorted by gap."""

Places = Collection[int]
"""Row numbers, counted from 0."""

Additions = Mapping[int, tuple[int, str]]
"""Texts to add to chat turns, by row: the number of the turn, and the text."""

TEXT = "text"
CHATS = ("messages", "conversations")
"""Columns of chat turns that are recognized by name."""

MAX_CLASSES = 100_000

MOST_NAMED = 20
"""Maximum number of columns that an error lists."""
NAME = re.compile(r"(?=.{1,30}$)(?!.*\d{4})[^\W\d][\w.:/-]*( [\w.:/-]+){0,2}")
"""Text that looks like the name of a column, and not like a value in a file without a header."""


def lost_rows(left: int) -> PlantingError:
    """Return the error for input that has lost rows since it was read before; ``left`` is the number of rows now."""
    return PlantingError(
        f"the input lost rows while it was being read ({left} left): plant when no other process writes to it"
    )


class NoColumnError(PlantingError):
    """An error for a missing column; ``nameless`` is this error without the names of the existing columns.

    Without a header, the first row of a file, which may be private, is taken for the names. So they are listed only if
    all look like names.
    """

    def __init__(self, path: Path, name: str, columns: Sequence[str], option: str) -> None:
        missing, remedy = f"no column {name!r}", "name one with {}"
        more = f" and {len(columns) - MOST_NAMED} more" if len(columns) > MOST_NAMED else ""
        listed = all(map(NAME.fullmatch, columns))
        there = f" (it has {', '.join(columns[:MOST_NAMED])}{more})" if listed else ""
        super().__init__(subject=str(path), problem=f"{missing}{there}", remedy=remedy, option=option)
        self.nameless = PlantingError(subject=str(path), problem=missing, remedy=remedy, option=option)


class Plantable(Protocol):
    """Interface of an object that can become a row: a text, with the class, tags and source sentence that some formats
    need."""

    @property
    def id(self) -> str:
        """The name in error messages."""

    @property
    def text(self) -> str:
        """The text to plant."""

    @property
    def label(self) -> str | None:
        """The class or intent."""

    @property
    def tags(self) -> tuple[str, ...] | None:
        """A slot tag for each word."""

    @property
    def source_text(self) -> str | None:
        """The sentence of which the text is the translation."""


@dataclass(frozen=True)
class Columns:
    """The columns and options that the user requested: text, label, split and source.

    ``role`` is the role whose turn a canary is in chats or in prompts and answers; None for the default. ``prompt`` is
    the text before a canary in its row; None for the default. ``text_named`` is True if the user gave the name of the
    text column, even if it is the default name.
    """

    text: str = TEXT
    label: str | None = None
    split: str = "train"
    source: str | None = None
    role: Role | None = None
    prompt: str | None = None
    text_named: bool = False


@dataclass
class Layout:
    """The layout of a dataset."""

    new_labels: ClassVar[bool] = False
    """True if a canary may have a class that no row has."""

    rows: int
    """The number of rows."""
    columns: tuple[str, ...]
    """The names of the columns."""
    text: str
    """The text column."""
    label: str | None = None
    """The label column."""
    source: str | None = None
    """The column of the source sentences."""
    chat: bool = False
    """True if texts are chat turns."""
    role: Role = "assistant"
    """The role whose turn a canary is in chats."""
    shape: RowShape | None = None
    """The shape of rows with prompts and answers in separate columns."""
    parts: tuple[str, ...] = ()
    """The text columns of rows with a shape."""
    dialects: dict[str, Dialect] = field(default_factory=dict)
    """How conversations are written in each column that holds them, by column."""
    wanted_prompt: str | None = None
    """The prompt before a canary in its row, if the user gave it."""
    labels: dict[str, Any] = field(default_factory=dict)
    """Values of the label column, by class name in the manifest."""
    head: bytes = b""
    """The bytes before the first row in a file of lines."""
    newline: bytes = b"\n"
    """The line ending."""
    delimiter: str = ","
    """The delimiter of columns."""
    unpacked_sha256: str | None = None
    """The SHA-256 of a compressed file's decompressed content."""
    characters: int | None = None
    """The number of characters of all texts, if it was counted."""

    @property
    def usual_role(self) -> Role:
        """The default role of a text in the text column."""
        return "assistant" if self.shape is None else self.shape.roles_of(self.text, self.chat)[0]

    def for_copies(self, source: Path, wanted: Columns) -> Self:
        """Return the layout with the role and the prompt that the user requested.

        Raises PlantingError if the text column has no text of the role, if rows have no prompt, and if a trainer may
        read other columns than the text column.
        """
        self._check_one_reading(source, wanted)
        role = wanted.role or self.usual_role
        roles: tuple[Role, ...] = get_args(Role) if self.chat else ()
        roles = roles if self.shape is None else self.shape.roles_of(self.text, self.chat)
        if wanted.role is not None and role not in roles:
            content = f"holds the {' or the '.join(roles)}'s turn" if roles else "holds no chat turns"
            problem = f"column {self.text!r} {content}, so a canary there cannot be the {role}'s"
            raise PlantingError(subject=str(source), problem=problem, remedy="leave {} out", option="role")
        layout = replace(self, role=role, wanted_prompt=wanted.prompt)
        if wanted.prompt is not None and layout.prompt is None:
            problem = f"no text precedes a canary in column {self.text!r}, so it can have no prompt"
            raise PlantingError(subject=str(source), problem=problem, remedy="leave {} out", option="prompt")
        return layout

    def _check_one_reading(self, source: Path, wanted: Columns) -> None:
        """Raise PlantingError if a trainer may read prompts and answers instead, and no text column was named."""
        other = next((shape for shape in SHAPES if shape.fits(self.columns)), None)
        named = wanted.text_named or wanted.text != TEXT
        if named or other is None or self.text in other.parts(self.columns):
            return
        kind = "chats" if self.text in CHATS else "texts"
        columns = " and ".join(repr(name) for name in other.answers)
        problem = f"has {kind} in {self.text!r} and answers in {columns}, and a copy goes into only one of them"
        remedy = "name the column that your trainer reads with {}"
        raise PlantingError(subject=str(source), problem=problem, remedy=remedy, option="text_column")

    @property
    def drawn(self) -> tuple[str, ...]:
        """The columns of a copy's row that get an answer from another row of the data."""
        return () if self.shape is None else self.shape.drawn(self.text)

    @property
    def companions(self) -> tuple[str, ...]:
        """Further columns that a trainer may read. In a copy's row they get the values of another row of the data."""
        fitting = [shape for shape in SHAPES if shape.fits(self.columns)]
        read = {TEXT, *CHATS, *(name for shape in fitting for name in (*shape.parts(self.columns), *shape.marks))}
        used = {self.text, self.label, self.source, *self.parts}
        return tuple(name for name in self.columns if name in read - used)

    @property
    def prompt(self) -> str | None:
        """The text before a canary that the model reads in its row; None if there is no such text."""
        if self.shape is None:
            return (self.wanted_prompt or USER_TURN) if self.chat and self.role in ("assistant", "tool") else None
        is_first = self.text == self.shape.prompt_column or self.role == "system"
        return None if is_first else self.wanted_prompt or self.shape.usual_prompt(self.chat)

    def row(self, canary: Plantable, drawn: Mapping[str, Any] = MappingProxyType({})) -> Row:
        """Return the canary as a row; ``drawn`` maps each column of :attr:`drawn` and :attr:`companions` to its value.

        Raises PlantingError if the label or source column cannot be filled.
        """
        row: Row = dict.fromkeys(self.columns)
        row |= {name: drawn.get(name) for name in self.companions}
        row |= self._texts(canary.text, drawn)
        if self.label is not None:
            row[self.label] = self._class_of(canary)
        if self.source is not None:
            if canary.source_text is None:
                raise PlantingError(
                    f"{canary.id} has no source sentence for column {self.source!r}: make canaries with --source"
                )
            row[self.source] = canary.source_text
        return row

    def _texts(self, text: str, drawn: Mapping[str, Any]) -> Row:
        if self.shape is not None:
            prompt = self.wanted_prompt or self.shape.usual_prompt(self.chat)
            return filled(self.shape, RowCopy(text, self.text, self.role, prompt), self.parts, self.dialects, drawn)
        if not self.chat:
            return {self.text: text}
        turns = conversation(text, self.role, prompt=self.wanted_prompt or USER_TURN)
        return {self.text: self.dialects.get(self.text, Dialect()).write(turns)}

    def _class_of(self, canary: Plantable) -> Any:
        if canary.label is None:
            raise PlantingError(f"{canary.id} has no label for column {self.label!r}: name one with --label")
        if canary.label not in self.labels:
            names = list(self.labels)
            some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise PlantingError(
                f"{canary.id}: label {canary.label!r} is not in column {self.label!r} (it holds {some or 'no label'})"
            )
        return self.labels[canary.label]


def choose_texts(path: Path, columns: Sequence[str], wanted: Columns) -> tuple[str, RowShape | None]:
    """Return the text column, and the shape of rows with several text columns.

    The text column is the user's choice. If the default ``text`` is missing, it is a column of chat turns, or the
    column of ``wanted.role`` in the shape that fits the columns. Raises NoColumnError if there is no such column.
    """
    shapes = [shape for shape in SHAPES if shape.fits(columns)]
    if wanted.text in columns:
        return wanted.text, next((shape for shape in shapes if wanted.text in shape.parts(columns)), None)
    if wanted.text == TEXT:
        if (chat := next((name for name in CHATS if name in columns), None)) is not None:
            return chat, None
        if shapes:
            return shapes[0].column_of(wanted.role, columns), shapes[0]
    raise NoColumnError(path, wanted.text, columns, "text_column")


def check_columns(path: Path, columns: Sequence[str], wanted: Columns, text: str) -> None:
    """Raise PlantingError unless the text, label and source columns exist exactly once and are different columns."""
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
    """Raise PlantingError if several columns have this name."""
    if columns.count(name) > 1:
        raise PlantingError(f"{path}: has two columns called {name!r}: give each a name of its own")


def note_label(labels: dict[str, Any], value: Any) -> None:
    """Record a class found in the label column."""
    if isinstance(value, str | int | float) and len(labels) < MAX_CLASSES:
        labels.setdefault(str(value), value)
