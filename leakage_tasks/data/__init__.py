"""The kinds of dataset canaries can be planted into: one file a format, chosen by a path's suffix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import Columns, Format, Layout, Points, Row, Turns
from leakage_tasks.data.commas import CommaFormat
from leakage_tasks.data.jsonl import JsonLinesFormat
from leakage_tasks.data.lines import TextFormat
from leakage_tasks.data.tagged import ConllFormat, NLUFolderFormat, may_be_replaced
from leakage_tasks.data.utterances import CONLL, FILES, holds_utterances

__all__ = ["Columns", "Format", "Layout", "Points", "Row", "TextFormat", "Turns", "format_of", "is_saved"]


def _parquet() -> Format:
    from leakage_tasks.data.parquet import ParquetFormat

    return ParquetFormat()


_BY_SUFFIX: dict[str, Callable[[], Format]] = {
    ".txt": TextFormat,
    ".jsonl": JsonLinesFormat,
    ".csv": CommaFormat,
    ".tsv": CommaFormat,
    ".parquet": _parquet,
    CONLL: ConllFormat,
}
_NLU_FILES = f"{', '.join(FILES[:-1])} and {FILES[-1]}"
_EXPECTED = f"{', '.join(_BY_SUFFIX)}, a folder saved by 'datasets' or one with {_NLU_FILES}"


def is_saved(folder: Path) -> bool:
    """Whether ``datasets`` saved this folder, as a dataset or as a dict of splits."""
    return (folder / "dataset_dict.json").is_file() or (folder / "dataset_info.json").is_file()


def format_of(path: Path) -> Format:
    """The format of an existing file or folder.

    Raises PlantingError if there is none, or if it is of no known kind.
    """
    if path.is_dir():
        if is_saved(path):
            from leakage_tasks.data.saved import SavedFormat

            return SavedFormat()
        if holds_utterances(path):
            return NLUFolderFormat()
        raise PlantingError(f"{path}: a folder, but none saved by 'datasets' (save_to_disk): expected {_EXPECTED}")
    if not path.exists():
        raise PlantingError(f"{path}: no such file: check the path")
    if not path.is_file():
        raise PlantingError(f"{path}: is read more than once, so it must be a file: save it as one first")
    try:
        return _BY_SUFFIX[path.suffix.lower()]()
    except KeyError:
        raise PlantingError(f"{path}: unknown kind of file {path.suffix!r}: expected {_EXPECTED}") from None


def check_output(source: Path, output: Path) -> None:
    """Raise PlantingError unless ``output`` is named as the format of ``source`` is, and may be replaced."""
    if not source.is_dir():
        if output.suffix.lower() != source.suffix.lower():
            raise PlantingError(
                f"{output}: must end in {source.suffix!r} like {source.name}: the copy keeps the format"
            )
        if output.is_dir():
            raise PlantingError(f"{output}: is a folder: name a file")
    elif output.suffix.lower() in _BY_SUFFIX:
        raise PlantingError(
            f"{output}: must be a folder like {source.name}, not {output.suffix!r}: choose another name"
        )
    elif not is_saved(source):
        if output.exists() and not may_be_replaced(output):
            raise PlantingError(f"{output}: exists and holds more than {_NLU_FILES}: choose another name")
    elif output.exists() and not is_saved(output):
        raise PlantingError(f"{output}: exists and is no folder saved by 'datasets': choose another name")


def overlap(one: Path, other: Path) -> bool:
    """Whether two places are one and the same, or one is a folder that holds the other."""
    if one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other)):
        return True
    return any(
        folder.is_dir() and folder.resolve() in path.resolve().parents for path, folder in ((one, other), (other, one))
    )
