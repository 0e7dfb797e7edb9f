"""Data that several trials need: published data sets, and files that one trial creates for all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakage_tasks.core.errors import LeakageError


def data_folder() -> Path:
    """Return the folder of published data sets: ``LEAKAGE_DATA``, or the current folder."""
    return Path(os.environ.get("LEAKAGE_DATA", "."))


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a published file, empty if the file does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


@contextmanager
def create_once(path: Path) -> Iterator[bool]:
    """Yield True if ``path`` has to be created. Other processes wait until the block ends.

    The block must write the file or folder completely or not at all, with :func:`leakage_tasks.core.atomic.replacing`.
    Raises LeakageError if files cannot be locked.
    """
    from filelock import FileLock

    if path.exists():
        yield False
        return
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise LeakageError(f"{path}: cannot be locked ({error}): choose another --output") from None
    try:
        yield not path.exists()
    finally:
        lock.release()
