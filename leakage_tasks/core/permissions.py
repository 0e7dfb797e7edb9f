"""File permissions: a copy must not be readable by users who cannot read its source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

_OWNER, _FILE_MODE = 0o700, 0o600
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def copy_permissions(written: Path, like: Path, private: bool = False) -> None:
    """Give a file or folder the permissions of ``like``, if that exists; with ``private``, only the owner has access.

    A file in a folder gets the permissions of the file with its name in ``like``, or of the least open file there. If
    ``written`` is a file and ``like`` a folder, users who can read every file in that folder get access. If ``written``
    is a folder and ``like`` a file, users who can read that file get access.
    """
    if private:
        for path in _all(written):
            path.chmod(_OWNER if path.is_dir() else _FILE_MODE)
    elif like.is_dir() and not written.is_dir():
        open_to_readers(written, _files(like), like)
    elif like.is_dir():
        closed = _least_open(_files(like), like)
        for path in _all(written):
            namesake = like / path.relative_to(written)
            model = (
                namesake
                if namesake.is_dir() == path.is_dir() and namesake.exists()
                else like
                if path.is_dir()
                else closed
            )
            _copy_mode(path, model)
    elif like.is_file():
        for path in _all(written):
            _copy_mode(path, like) if path.is_file() else path.chmod(_mode(path) & (_folder_mode(like) | ~_OTHERS))


def open_to_readers(written: Path, files: Iterable[Path], folder: Path) -> None:
    """Open a private file to users who can list ``folder`` and read all of ``files``."""
    _copy_mode(written, _least_open(files, folder), folder)


def restrict_to(written: Path, like: Path) -> None:
    """Remove the permissions of group and others that they do not have for ``like``."""
    written.chmod(_mode(written) & (_mode(like) | ~_OTHERS))


def _all(written: Path) -> list[Path]:
    return [written, *(written.rglob("*") if written.is_dir() else ())]


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def _least_open(files: Iterable[Path], default: Path) -> Path:
    """Return the file with the fewest permissions for group and others, or ``default`` if there are no files."""
    return min(files, key=lambda file: (_mode(file) & _OTHERS).bit_count(), default=default)


def _copy_mode(written: Path, like: Path, within: Path | None = None) -> None:
    """Copy the permissions of ``like``; with ``within``, group and others get only permissions that they have for that
    path too."""
    target, current = like.stat(), written.stat()
    mode = stat.S_IMODE(target.st_mode)
    if written.is_dir():
        mode |= _OWNER
    elif like.is_dir():
        mode &= ~(stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    try:
        os.chown(written, target.st_uid if os.geteuid() == 0 else -1, target.st_gid)
    except OSError:
        # The file could not be given to that group, so its permissions would go to another group.
        mode &= ~stat.S_IRWXG if current.st_gid != target.st_gid else mode
    written.chmod(mode if within is None else mode & (_mode(within) | ~_OTHERS))


def _folder_mode(file: Path) -> int:
    """Return the folder permissions for users who can read a file: read and search."""
    readers = _mode(file) & 0o444
    return readers | readers >> 2


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
