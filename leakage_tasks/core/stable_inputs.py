"""Inputs that are read more than once, or for long, and must be the same all the while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakage_tasks.core.errors import LeakageError

CACHE = "cache-"
"""What the names begin with that 'datasets' gives to files it puts beside its own as it reads them."""
_Stamp = tuple[int, int, int, int]


class ChangedError(LeakageError):
    """An input that something wrote to while it was read."""


def changed(path: Path) -> ChangedError:
    """The error of an input that is not what it was."""
    return ChangedError(f"{path}: changed while it was read: run again when nothing writes to it")


@contextmanager
def unchanged(*paths: Path) -> Iterator[None]:
    """Raise ChangedError, which names it, at the end if a file, or one in a folder, is not what it was at the start.

    A file is what it was while its size, time of writing and place on the disk are: nothing is read for that. Whatever
    a change made fail is told as the change. What is new in a folder is not told: it was not there to be read. Enter it
    after :func:`~leakage_tasks.core.atomic.replacing`, so that nothing takes its place that was read while it changed.
    """
    before = {path: _stamps(path) for path in paths}
    try:
        yield
    except Exception:
        _check(before)
        raise
    _check(before)


def _check(before: dict[Path, dict[Path, _Stamp]]) -> None:
    for path, stamps in before.items():
        now = _stamps(path)
        for file, stamp in stamps.items():
            if now.get(file) != stamp:
                raise changed(file) from None


def _stamps(path: Path) -> dict[Path, _Stamp]:
    """What tells each file from what it was; none of a path that cannot be looked at."""
    found = {}
    for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
        try:
            known = file.stat()
        except (OSError, ValueError):
            continue
        if file.is_file() and not file.name.startswith(CACHE):
            found[file] = (known.st_dev, known.st_ino, known.st_size, known.st_mtime_ns)
    return found
