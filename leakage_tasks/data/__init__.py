"""The data formats that canaries can be planted into, one file per format, selected by a path's suffix."""

from __future__ import annotations

import re
from pathlib import Path

from leakage_tasks.core.errors import PlantingError
from leakage_tasks.data.base import FORMATS, Format
from leakage_tasks.data.chat import Turns
from leakage_tasks.data.layout import Columns, Layout, Points, Row
from leakage_tasks.data.lines import TextFormat
from leakage_tasks.data.packed import bare, codec_of

__all__ = [
    "FORMATS",
    "Columns",
    "Format",
    "Layout",
    "Points",
    "Row",
    "TextFormat",
    "Turns",
    "ending_of",
    "file_kind",
    "format_of",
]


_MAYBE_HUB = re.compile(r"[\w-][\w.-]*/[\w.-]*[\w-]")
"""A name that may denote a data set of the hub."""


def _expected() -> str:
    suffixes = sorted(f".{name}" for name, kind in FORMATS.items() if not kind.folder and not kind.pointer)
    folders = sorted(kind.folder for kind in FORMATS.values() if kind.folder)
    return f"{', '.join([*suffixes, *folders[:-1]])} or {folders[-1]} (files of lines may be compressed: .gz, .zst)"


def file_kind(path: Path) -> type[Format] | None:
    """Return the file format for a path's suffix, or None."""
    name = bare(path).suffix.lower().removeprefix(".")
    kind = FORMATS[name] if name in FORMATS and not FORMATS[name].folder else None
    return kind if kind is None or kind.packable or not codec_of(path) else None


def ending_of(path: Path) -> str:
    """Return the suffixes of a name that determine format and compression, such as ``.jsonl.zst``."""
    return (bare(path).suffix + path.suffix if codec_of(path) else path.suffix).lower()


def format_of(path: Path) -> Format:
    """Return the format of an existing file or folder.

    Raises PlantingError if it does not exist or has no known format.
    """
    if path.is_dir():
        for kind in FORMATS.values():
            if kind.holds(path):
                return kind()
        raise PlantingError(f"{path}: a folder with no data in it that can be read: expected {_expected()}")
    if not path.exists():
        hub = f", or write hub:{path} for a data set of the hub" if _MAYBE_HUB.fullmatch(str(path)) else ""
        raise PlantingError(f"{path}: no such file: check the path{hub}")
    if not path.is_file():
        raise PlantingError(f"{path}: is read more than once, so it must be a file: save it as one first")
    known = file_kind(path) or next((kind for kind in FORMATS.values() if kind.pointer and kind.holds(path)), None)
    if known is None:
        raise PlantingError(f"{path}: unknown kind of file {ending_of(path)!r}: expected {_expected()}")
    return known()


def check_output(source: Path, output: Path) -> None:
    """Raise PlantingError unless ``output`` has a name for the format of ``source`` and may be replaced."""
    if not source.is_dir():
        if ending_of(output) != ending_of(source):
            raise PlantingError(
                f"{output}: must end in {ending_of(source)!r} like {source.name}: the copy keeps the format"
            )
        if output.is_dir():
            raise PlantingError(f"{output}: is a folder: name a file")
    elif file_kind(output) is not None:
        raise PlantingError(
            f"{output}: must be a folder like {source.name}, not {output.suffix!r}: choose another name"
        )
    elif output.exists():
        format_of(source).check_folder(output)


def overlap(one: Path, other: Path) -> bool:
    """Return True if two paths are equal, or if one is a folder that contains the other."""
    if one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other)):
        return True
    return any(
        folder.is_dir() and folder.resolve() in path.resolve().parents for path, folder in ((one, other), (other, one))
    )
