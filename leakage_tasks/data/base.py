"""The interface of data formats, and their registry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.core.registry import PluginError, Registry
from leakage_tasks.data.chat import Turns
from leakage_tasks.data.layout import Additions, Columns, Layout, Places, Points, Row
from leakage_tasks.data.turns import turns_of


class Format(ABC):
    """A data format. Its data are read as streams, at least twice."""

    name: ClassVar[str]
    """The name of the format in reports."""
    folder: ClassVar[str] = ""
    """For formats of folders: their description in messages, such as ``a folder saved by 'datasets'``."""
    pointer: ClassVar[bool] = False
    """True if the files of this format are pointers to data stored elsewhere."""
    running: ClassVar[bool] = False
    """True if the data are one continuous text whose rows are lines of any length."""

    labelled: ClassVar[bool] = True
    """True if rows of this format can have labels."""
    exact: ClassVar[bool] = False
    """True if :meth:`write_back` restores every byte of the decompressed data."""
    packable: ClassVar[bool] = False
    """True if a file may be compressed, with ``.gz`` or ``.zst`` after its suffix."""

    @classmethod
    def holds(cls, folder: Path) -> bool:
        """Return True if an existing folder or pointer has this format."""
        return False

    @classmethod
    def check_folder(cls, output: Path) -> None:
        """Raise PlantingError unless an existing ``output`` may be replaced by a folder of this format."""
        raise PlantingError(f"{output}: exists: choose another name")

    @abstractmethod
    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read the data once and return their layout. Raises PlantingError if they are damaged or lack a column."""

    def outline(self, source: Path, wanted: Columns) -> Layout:
        """Return a layout of data that :meth:`write` wrote; facts that :meth:`write_back` does not need may be
        missing."""
        return self.survey(source, wanted)

    @abstractmethod
    def write(self, source: Path, output: Path, layout: Layout, wanted: Columns, points: Points) -> None:
        """Copy the data to ``output`` with inserted rows.

        Args:
            source: The data.
            output: The path of the copy.
            layout: The layout from :meth:`survey`.
            wanted: The columns that the user requested.
            points: The rows to insert, each with its gap, sorted by gap.
        """

    def write_into_turns(
        self, source: Path, output: Path, layout: Layout, wanted: Columns, additions: Additions
    ) -> None:
        """Copy the data to ``output`` with texts added at the end of chat turns; all else stays unchanged.

        Args:
            source: The data.
            output: The path of the copy.
            layout: The layout from :meth:`survey`.
            wanted: The columns that the user requested.
            additions: The turn and the text to add, by row.

        Raises:
            PlantingError: If this is impossible, as in formats without chats.
        """
        raise PlantingError(
            subject=str(source),
            problem=f"{self.name} has no turns to which texts can be added",
            remedy="leave {} out",
            option="chat_position",
        )

    @abstractmethod
    def write_without(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy the data to ``output`` without some rows.

        In files of lines, the other rows, the text before the first row, and blank lines between rows are copied byte
        for byte. Parquet files and saved folders keep schema, metadata and the other splits.

        Args:
            source: The data.
            output: The path of the copy.
            layout: The layout from :meth:`survey`.
            wanted: The columns that the user requested.
            dropped: The numbers of the rows to leave out.
        """

    def write_back(self, source: Path, output: Path, layout: Layout, wanted: Columns, dropped: Places) -> None:
        """Copy data written by :meth:`write` to ``output`` without the inserted rows.

        The copy equals the input of :meth:`write`: byte for byte after decompression for files of lines, else in schema
        and rows.

        Args:
            source: The data with the inserted rows.
            output: The path of the copy.
            layout: The layout from :meth:`outline`.
            wanted: The columns that the user requested.
            dropped: The numbers of the inserted rows.
        """
        self.write_without(source, output, layout, wanted, dropped)

    def height(self, row: Row) -> int:
        """Return the number of rows that an inserted row has when it is read again."""
        return 1

    @abstractmethod
    def values(self, path: Path, layout: Layout, wanted: Columns, column: str) -> Iterator[Any]:
        """Yield the values of a column, row by row.

        Args:
            path: The data.
            layout: The layout from :meth:`survey`.
            wanted: The columns that the user requested.
            column: The name of the column.
        """

    def several(self, path: Path, layout: Layout, wanted: Columns, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield the values of several columns, row by row.

        Args:
            path: The data.
            layout: The layout from :meth:`survey`.
            wanted: The columns that the user requested.
            columns: The names of the columns.
        """
        return zip(*(self.values(path, layout, wanted, column) for column in columns), strict=True)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """Yield every row's texts: the single text, chat turns, or prompt and answers.

        If :attr:`running`, yield blocks of one text instead, which can end anywhere.
        """
        if layout.shape is None:
            return map(turns_of, self.values(path, layout, wanted, layout.text))
        rows = self.several(path, layout, wanted, layout.parts)
        return (tuple(chain.from_iterable(map(turns_of, values))) for values in rows)

    def row_texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
        """Yield every row's text without its line ending; chat turns are joined by line breaks."""
        return map("\n".join, self.texts(path, layout, wanted))

    def reading(self, source: Path, wanted: Columns) -> tuple[Layout, Iterator[Turns]]:
        """Return the results of :meth:`survey` and :meth:`texts`, if possible from one pass over the data.

        The layout is complete when all texts have been read; its text column and ``chat`` are set before.
        """
        layout = self.survey(source, wanted)
        return layout, self.texts(source, layout, wanted)

    def peek(self, source: Path, wanted: Columns) -> Layout:
        """Return a layout of which only ``text``, ``chat`` and ``shape`` are complete; reads few rows if possible."""
        return self.reading(source, wanted)[0]

    def characters(self, path: Path, layout: Layout, wanted: Columns) -> int:
        """Return the number of characters of all texts; the file is read again unless :meth:`survey` counted them."""
        if layout.characters is not None:
            return layout.characters
        return sum(len(turn) for turns in self.texts(path, layout, wanted) for turn in turns)

    def labels(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str | None]:
        """Yield the class of every row by its name in manifests and models; None without a class.

        ``layout`` is the result of :meth:`survey` with a label column. Numbers of a ClassLabel column become class
        names.
        """
        # A ClassLabel column's classes are also listed by number; the names come later and replace the numbers.
        names = {value: name for name, value in layout.labels.items()}
        for value in self.values(path, layout, wanted, layout.label or ""):
            yield None if value is None or value == "" else names.get(value, str(value))


FORMATS: Registry[type[Format]] = Registry("format", "leakage_tasks.data", group="lm_eval_leakage.formats")
"""Formats by suffix without the dot; formats of folders by an arbitrary name."""
AnyFormat = TypeVar("AnyFormat", bound=type[Format])


def register_format(*names: str) -> Callable[[AnyFormat], AnyFormat]:
    """Register a :class:`Format` for paths with these suffixes, such as ``csv``; a format of folders by any other name.

    Raises PluginError for a name that is taken and for a class that is not a format.
    """

    def add(kind: AnyFormat) -> AnyFormat:
        if not (isinstance(kind, type) and issubclass(kind, Format)) or kind.__abstractmethods__:
            lacking = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
            why = f"lacks {lacking}" if lacking else "is not a subclass of Format"
            raise PluginError(f"format {names[0]!r}: {kind.__name__} {why}: write one")
        for name in names:
            FORMATS.register(name, kind)
        return kind

    return add
