"""What every format offers, and the formats by name."""

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
    """One kind of dataset. Sources are read as streams, at least twice."""

    name: ClassVar[str]
    """What a report calls the format."""
    folder: ClassVar[str] = ""
    """Of a kind of folder, what messages call one, such as ``a folder saved by 'datasets'``."""
    pointer: ClassVar[bool] = False
    """Whether its files stand for data that are elsewhere."""
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
        """Whether an existing folder, or pointer, is one of this kind."""
        return False

    @classmethod
    def check_folder(cls, output: Path) -> None:
        """Raise PlantingError unless an existing ``output`` may be replaced by a folder of this kind."""
        raise PlantingError(f"{output}: exists: choose another name")

    @abstractmethod
    def survey(self, source: Path, wanted: Columns) -> Layout:
        """Read the dataset once. Raises PlantingError if it is damaged or lacks a column."""

    def outline(self, source: Path, wanted: Columns) -> Layout:
        """What :meth:`write_back` has to know of data that :meth:`write` made; all else may be left out."""
        return self.survey(source, wanted)

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
            option="chat_position",
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

    def several(self, path: Path, layout: Layout, wanted: Columns, columns: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield what several columns hold, row by row."""
        return zip(*(self.values(path, layout, wanted, column) for column in columns), strict=True)

    def texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[Turns]:
        """Yield every row's texts: the one text, chat turns, or prompt and answers.

        If :attr:`running`, yield blocks of one text instead, which end anywhere.
        """
        if layout.shape is None:
            return map(turns_of, self.values(path, layout, wanted, layout.text))
        rows = self.several(path, layout, wanted, layout.parts)
        return (tuple(chain.from_iterable(map(turns_of, values))) for values in rows)

    def row_texts(self, path: Path, layout: Layout, wanted: Columns) -> Iterator[str]:
        """Every row's text, chat turns as one text parted by line ends; a line of a text file without its ending."""
        return map("\n".join, self.texts(path, layout, wanted))

    def reading(self, source: Path, wanted: Columns) -> tuple[Layout, Iterator[Turns]]:
        """What :meth:`survey` and :meth:`texts` give; the layout is whole once all texts have been read.

        What the text column is, and whether it holds chats, it says before.
        """
        layout = self.survey(source, wanted)
        return layout, self.texts(source, layout, wanted)

    def characters(self, path: Path, layout: Layout, wanted: Columns) -> int:
        """Those of all texts; the file is read for it unless the survey, which found ``layout``, has counted them."""
        if layout.characters is not None:
            return layout.characters
        return sum(len(turn) for turns in self.texts(path, layout, wanted) for turn in turns)

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
