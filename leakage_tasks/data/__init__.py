"""The kinds of dataset canaries can be planted into: one file a format, chosen by a path's suffix."""

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
"""A name that may be meant for a data set of the hub."""


def _expected() -> str:
    suffixes = sorted(f".{name}" for name, kind in FORMATS.items() if not kind.folder and not kind.pointer)
    folders = [kind.folder for kind in FORMATS.values() if kind.folder]
    return f"{', '.join([*suffixes, *folders[:-1]])} or {folders[-1]} (lines may be packed: .gz, .zst)"


def file_kind(path: Path) -> type[Format] | None:
    """The kind of file that a path is one of by its ending."""
    name = bare(path).suffix.lower().removeprefix(".")
    found = FORMATS[name] if name in FORMATS and not FORMATS[name].folder else None
    return found if found is None or found.packable or not codec_of(path) else None


def ending_of(path: Path) -> str:
    """What a name ends with that tells the kind and the packing, such as ``.jsonl.zst``."""
    return (bare(path).suffix + path.suffix if codec_of(path) else path.suffix).lower()


def format_of(path: Path) -> Format:
    """The format of an existing file or folder.

    Raises PlantingError if there is none, or if it is of no known kind.
    """
    if path.is_dir():
        for kind in FORMATS.values():
            if kind.holds(path):
                return kind()
        raise PlantingError(f"{path}: a folder, but none saved by 'datasets' (save_to_disk): expected {_expected()}")
    if not path.exists():
        hub = f", or write hub:{path} for a data set of the hub" if _MAYBE_HUB.fullmatch(str(path)) else ""
        raise PlantingError(f"{path}: no such file: check the path{hub}")
    if not path.is_file():
        raise PlantingError(f"{path}: is read more than once, so it must be a file: save it as one first")
    found = file_kind(path) or next((kind for kind in FORMATS.values() if kind.pointer and kind.holds(path)), None)
    if found is None:
        raise PlantingError(f"{path}: unknown kind of file {ending_of(path)!r}: expected {_expected()}")
    return found()


def check_output(source: Path, output: Path) -> None:
    """Raise PlantingError unless ``output`` is named as the format of ``source`` is, and may be replaced."""
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
    """Whether two places are one and the same, or one is a folder that holds the other."""
    if one.resolve() == other.resolve() or (one.exists() and other.exists() and one.samefile(other)):
        return True
    return any(
        folder.is_dir() and folder.resolve() in path.resolve().parents for path, folder in ((one, other), (other, one))
    )
