"""What every format offers, and what a canary's row looks like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.registry import PluginError, Registry
from leakage_tasks.data.chat import Role, conversation

Row = dict[str, Any]
"""A row to insert: a value a column, None where the canary has nothing to say."""

Points = Sequence[tuple[int, Row]]
"""Rows to insert, each with its gap (gap g is after the first g rows), sorted by gap."""

Places = Collection[int]
"""Rows, counted from 0."""

Additions = Mapping[int, tuple[int, str]]
"""Texts to end chat turns with: by row, which of its turns, and the text."""

Turns = tuple[str, ...]
"""A row's text: the contents of its chat turns, or the one text."""

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


class Format(ABC):
    """One kind of dataset. Sources are read as streams, at least twice."""

    name: ClassVar[str]
    """What a report calls the format."""
    folder: ClassVar[str] = ""
    """Of a kind of folder, what messages call one, such as ``a folder saved by 'datasets'``."""
    running: ClassVar[bool] = False
    """Whether the dataset is one running text, its rows being lines of any length."""

    labelled: ClassVar[bool] = True
    """Whether its rows may have labels."""
    exact: ClassVar[bool] = False
    """Whether :meth:`write_back` gives back every byte, unpacked."""
    packable: ClassVar[bool] = False
    """Whether a file of this kind may be packed, its name ending in ``.gz`` or ``.zst`` besides."""

    @classmethod
    def holds(cls, folder: Path) -> bool:
        """Whether an existing folder is one of this kind."""
        return False

    @classmethod
    def check_folder(cls, output: Path) -> None:
        """Raise PlantingError unless an existing ``output`` may be replaced by a folder of this kind."""
        raise PlantingError(f"{output}: exists: choose another name")

    @abstractmethod
    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read the dataset once. Raises PlantingError if it is damaged or lacks a column."""

    @abstractmethod
    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy the dataset to ``output`` with the rows of ``points`` in their gaps."""

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Copy the dataset to ``output`` with texts at the end of chat turns; all else stays as it is.

        Raises PlantingError where that cannot be done, as in formats without chats.
        """
        raise PlantingError(
            subject=str(source),
            problem=f"{self.name} cannot have texts put into its turns",
            remedy="leave {} out",
            option="turn",
        )

    @abstractmethod
    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy the dataset to ``output`` without the rows ``dropped``.

        Of files of lines the rows that stay, what stands before the first of them, and blank lines between rows are
        copied byte for byte. Parquet files and saved folders keep schema, metadata and the other splits.
        """

    def write_back(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy to ``output`` what :meth:`write` made, without the rows that it inserted, which are ``dropped``.

        What :meth:`write` was given comes back: files of lines byte for byte, unpacked; of others schema and rows.
        """
        self.write_without(source, output, layout, wanted, dropped)

    def height(self, row: Row) -> int:
        """How many rows an inserted row is once it is read again."""
        return 1

    @abstractmethod
    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """What a column holds, row by row."""

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """Every row's text or chat turns; if :attr:`running`, blocks of one text instead, which end anywhere."""
        return map(turns_of, self.values(path, layout, wanted, layout.text))

    def row_texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
        """Every row's text, chat turns as one text parted by line ends; a line of a text file without its ending."""
        return map("\n".join, self.texts(path, layout, wanted))

    def labels(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str | None]:
        """The class of every row by the name a manifest or a model would use for it; None where there is none.

        ``layout`` is what :meth:`survey` found with a label column. Numbers of a ClassLabel column become the names of
        their classes.
        """
        # A ClassLabel column's classes are known by number too; their names come later and win.
        names = {value: name for name, value in layout.labels.items()}
        for value in self.values(path, layout, wanted, layout.label or ""):
            yield None if value is None or value == "" else names.get(value, str(value))


FORMATS: Registry[type[Format]] = Registry("format", "leakage_tasks.data", group="lm_eval_leakage.formats")
"""Kinds of data by how their paths end, without the dot; folders by a name of their own."""
AnyFormat = TypeVar("AnyFormat", bound=type[Format])


def register_format(*names: str) -> Callable[[AnyFormat], AnyFormat]:
    """Register a :class:`Format` for paths that end so, such as ``csv``; for a kind of folder, by any other name.

    Raises PluginError for a name that is taken and for what is no format.
    """

    def add(kind: AnyFormat) -> AnyFormat:
        if not (isinstance(kind, type) and issubclass(kind, Format)) or kind.__abstractmethods__:
            lacking = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
            why = f"lacks {lacking}" if lacking else "is no subclass of Format"
            raise PluginError(f"format {names[0]!r}: {kind.__name__} {why}: write one")
        for name in names:
            FORMATS.register(name, kind)
        return kind

    return add


def choose_text_column(path: Path, columns: Sequence[str], wanted: Columns) -> str:
    """The text column: the one asked for, or ``messages`` where the default ``text`` is missing."""
    if wanted.text in columns:
        return wanted.text
    if wanted.text == TEXT and MESSAGES in columns:
        return MESSAGES
    raise NoColumnError(path, wanted.text, columns, "text_column")


def check_columns(path: Path, columns: Sequence[str], wanted: Columns, text: str) -> None:
    """Raise PlantingError if a label or source column is asked for that is missing or has another use already."""
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
        uses[name] = use


def note_label(labels: dict[str, Any], value: Any) -> None:
    """Remember a class seen in the label column."""
    if isinstance(value, str | int | float) and len(labels) < MAX_CLASSES:
        labels.setdefault(str(value), value)


def is_chat(value: Any) -> bool:
    """Whether a value is a list of chat turns."""
    return isinstance(value, list) and all(isinstance(turn, Mapping) and "content" in turn for turn in value)


def turns_of(value: Any) -> Turns:
    """The texts in a value of the text column."""
    if isinstance(value, str):
        return (value,)
    return tuple(text for turn in value or () if isinstance(text := turn["content"], str))
