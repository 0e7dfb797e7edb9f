"""For whose eyes a copy is: those that its source is for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_OWNER, _FILE_MODE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def give_rights(written: Path, like: Path, private: bool = False) -> None:
    """Make a file or folder as open as ``like``, where that is there; ``private`` ones for their owner alone.

    What lies in a folder is as open as what has its name in ``like``, else as the least open file there. A file that
    is ``like`` a folder is open to those who can read every file in it, a folder ``like`` a file to those who can read
    that.
    """
    if private:
        for each in _all(written):
            each.chmod(_OWNER if each.is_dir() else _FILE_MODE)
    elif like.is_dir() and not written.is_dir():
        open_to_readers(written, _files(like), like)
    elif like.is_dir():
        closed = _least_open(_files(like), like)
        for each in _all(written):
            same = like / each.relative_to(written)
            each_like = same if same.is_dir() == each.is_dir() and same.exists() else like if each.is_dir() else closed
            _as_open_as(each, each_like)
    elif like.is_file():
        for each in _all(written):
            _as_open_as(each, like) if each.is_file() else each.chmod(_mode(each) & (_seen(like) | ~_OTHERS))


def open_to_readers(written: Path, files: Iterable[Path], folder: Path) -> None:
    """Open a file that is its owner's alone to those who can look into ``folder`` and read every one of ``files``."""
    _as_open_as(written, _least_open(files, folder), folder)


def close_as(written: Path, like: Path) -> None:
    """Take from others the rights that they do not have to ``like``."""
    written.chmod(_mode(written) & (_mode(like) | ~_OTHERS))


def _all(written: Path) -> list[Path]:
    return [written, *(written.rglob("*") if written.is_dir() else ())]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _least_open(files: Iterable[Path], default: Path) -> Path:
    """The file that the fewest others have a right to; ``default`` where there is none."""
    return min(files, key=lambda file: (_mode(file) & _OTHERS).bit_count(), default=default)


def _as_open_as(written: Path, like: Path, within: Path | None = None) -> None:
    """Like ``like``, to those alone who have the rights to ``within``."""
    known, own = like.stat(), written.stat()
    mode = stat.S_IMODE(known.st_mode)
    if written.is_dir():
        mode |= _OWNER
    elif like.is_dir():
        mode &= ~(stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    try:
        os.chown(written, known.st_uid if os.geteuid() == 0 else -1, known.st_gid)
    except OSError:
        # Rights of a group that it cannot be given to would be another group's.
        mode &= ~stat.S_IRWXG if own.st_gid != known.st_gid else mode
    written.chmod(mode if within is None else mode & (_mode(within) | ~_OTHERS))


def _seen(file: Path) -> int:
    """The rights to a folder of those who can read a file: to look into it as well."""
    readers = _mode(file) & 0o444
    return readers | readers >> 2


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
