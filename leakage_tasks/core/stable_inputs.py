"""Detection of inputs that change while they are read."""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leakage_tasks.core.errors import LeakageError

CACHE = "cache-"
"""Prefix of the names of cache files that 'datasets' creates next to the files it reads."""
FileStamp = tuple[int, int, int, int]
"""Device, inode, size and modification time of a file."""


class ChangedError(LeakageError):
    """Error for an input that was modified while it was read."""


def changed(path: Path) -> ChangedError:
    """Return the error for an input that has changed."""
    return ChangedError(f"{path}: changed while it was read: run again when nothing writes to it")


@contextmanager
def unchanged(*paths: Path) -> Iterator[None]:
    """Raise ChangedError at the end of the block if a file, or a file in a folder, has changed since the start.

    A file counts as unchanged if its size, modification time and inode are equal; its content is not read. If the block
    raises an error after a change, ChangedError replaces it. New files in a folder are ignored, since they were not
    read. Enter this context after :func:`~leakage_tasks.core.atomic.replacing`, so that no output of a changed input is
    kept.
    """
    before = {path: _stamps(path) for path in paths}
    try:
        yield
    except Exception:
        _check(before)
        raise
    _check(before)


FileStates = tuple[tuple[str, int, int], ...]


def file_states(files: Iterable[Path]) -> FileStates:
    """Return name, size and modification time of each file, in order of the names; other paths are left out."""
    statuses = ((str(file), file.stat()) for file in sorted(files) if file.is_file())
    return tuple((name, status.st_size, status.st_mtime_ns) for name, status in statuses)


def _check(before: dict[Path, dict[Path, FileStamp]]) -> None:
    for path, stamps in before.items():
        now = _stamps(path)
        for file, stamp in stamps.items():
            if now.get(file) != stamp:
                raise changed(file) from None


def _stamps(path: Path) -> dict[Path, FileStamp]:
    """Return size, time and identity of each file; an inaccessible file is omitted."""
    stamps = {}
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        stamp = file_stamp(file)
        if stamp is not None and not file.name.startswith(CACHE):
            stamps[file] = stamp
    return stamps


def file_stamp(file: Path) -> FileStamp | None:
    """Return the stamp of a file, or None for another path and an inaccessible file."""
    try:
        status = file.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
