"""Data as a list of shards: the files of a folder, the files that match a pattern, or a single file or data set."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from leakage_tasks.core.atomic import is_leftover, leftovers
from leakage_tasks.core.errors import LeakageError, OptionError, PlantingError
from leakage_tasks.core.partial_results import delete_parts, removed_if_empty
from leakage_tasks.core.permissions import restrict_to
from leakage_tasks.data import FORMATS, Columns, ending_of, file_kind

_FRONT = 1 << 20
"""Maximum number of characters read from a card's front matter."""


WHOLE = ""
"""The name of the only shard of a single file or data set: its path is the root itself."""


@dataclass(frozen=True)
class Shards:
    """Files below ``root``, by relative name, in the order of their rows; or the single data set ``root``."""

    root: Path
    names: tuple[str, ...] = (WHOLE,)

    @property
    def alone(self) -> bool:
        """True for a single file or data set, False for the files of a folder."""
        return self.names == (WHOLE,)

    @property
    def display_name(self) -> str:
        """The name of the data in records."""
        return self.root.name if self.alone else self.root.resolve().name

    @property
    def split(self) -> str | None:
        """The split, if the shards belong to one of several splits."""
        return None

    @property
    def home(self) -> Path:
        """The file or folder that must not be changed."""
        return self.root

    def path(self, name: str) -> Path:
        """Return the path of a shard."""
        return self.root / name


def shards_of(source: Path) -> Shards:
    """Return the shards of a folder or pattern; a file, or a folder that is a single data set, is one shard.

    Files whose names begin with a dot and files of unknown format are ignored. Raises PlantingError for a pattern
    without matches, and for shards of several formats.
    """
    if source.is_dir():
        if any(kind.holds(source) for kind in FORMATS.values()):
            return Shards(source)
        _check_no_splits(source)
        root, files = source, [path for path in source.rglob("*") if path.is_file()]
    elif glob.has_magic(str(source)) and not source.exists():
        parts = source.parts
        first = next(index for index, part in enumerate(parts) if glob.has_magic(part))
        root = Path(*parts[:first])
        files = [Path(path) for path in glob.glob(str(source), recursive=True) if os.path.isfile(path)]
    else:
        return Shards(source)
    names = (path.relative_to(root) for path in files if file_kind(path) is not None)
    shards = sorted((name.as_posix() for name in names if not _hidden(name)), key=PurePosixPath)
    if not shards:
        if source.is_dir():
            return Shards(source)
        raise PlantingError(f"{source}: no file of a known kind fits this pattern: check it, or name a folder")
    kinds = {file_kind(Path(name)): ending_of(Path(name)) for name in shards}
    if len(kinds) > 1:
        raise PlantingError(f"{source}: holds {' and '.join(sorted(kinds.values()))}: name one kind with a pattern")
    return Shards(root, tuple(shards))


def state_of(output: Path) -> Path:
    """Return the folder for stored results of shards while ``output`` is made from them."""
    return output.with_name(f"{output.name}.leakage-shards").absolute()


def clear(state: Path, output: Path) -> None:
    """Delete the folder for stored results, and temporary files of a killed run in ``output``."""
    for path in (state, *leftovers(output)):
        delete_parts(path)


def earlier_run_note(shards: int, of: int, what: str = "done") -> str:
    """Return a report's words on shards that an earlier run had finished, or an empty string."""
    return f"; {shards} of {of} shards were {what} by an earlier run" if shards else ""


@contextmanager
def new_folders(output: Path, names: Collection[str], like: Path) -> Iterator[None]:
    """Make ``output`` and the folders of the shards ``names`` in it, with at most the permissions of those in ``like``.

    Existing folders stay unchanged. After an error in the block, the new folders that are empty are removed. Raises
    PlantingError if a folder cannot be made.
    """
    with ExitStack() as made:
        for name in dict.fromkeys(PurePosixPath(name).parent for name in names):
            for part in (*reversed(name.parents), name):
                folder = output / part
                if folder.is_dir():
                    continue
                try:
                    folder.mkdir(parents=True)
                except OSError as error:
                    raise PlantingError(f"{folder}: cannot be made ({error.strerror}): choose another output") from None
                made.enter_context(removed_if_empty(folder))
                restrict_to(folder, like / part)
        yield


def check_no_other_files(output: Path, names: Collection[str], error: type[LeakageError]) -> None:
    """Raise ``error`` for an output that contains files other than the shards ``names``."""
    files = (path.relative_to(output) for path in output.rglob("*") if path.is_file()) if output.is_dir() else ()
    for path in files:
        # Temporary files of a killed run are allowed.
        if path.as_posix() not in names and not any(map(is_leftover, path.parts)):
            raise error(f"{output}: holds {path.name}, which is not a shard of this data: choose another output")


def check_splits(source: Path, split: str) -> None:
    """Raise OptionError if a split other than the default was named and the data exist and have no splits."""
    if split != Columns.split and source.exists() and not (source / "dataset_dict.json").is_file():
        raise OptionError(f"--split {split}: {source} has no splits: leave --split out")


def _check_no_splits(source: Path) -> None:
    """Raise PlantingError if the folder's README.md assigns its files to splits."""
    card = source / "README.md"
    if not card.is_file():
        return
    with card.open(encoding="utf-8", errors="replace") as text:
        front = text.read(_FRONT).partition("\n---")[0] if text.readline().rstrip() == "---" else ""
    if re.search(r"^(configs|dataset_info):", front, re.MULTILINE):
        raise PlantingError(
            f"{source}: its README.md divides its files into splits: write hub:{source} for one of the splits, or a "
            f"pattern such as '{source}/*.jsonl' for all files"
        )


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
