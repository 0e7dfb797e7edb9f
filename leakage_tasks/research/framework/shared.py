"""What several trials need: published data, and what one of them makes for all."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakage_tasks.core.errors import LeakageError


def data_folder() -> Path:
    """Where published data are: ``LEAKAGE_DATA``."""
    return Path(os.environ.get("LEAKAGE_DATA", "."))


def file_hash(path: Path) -> str:
    """What tells a published file apart: its SHA-256, empty where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


@contextmanager
def sole_maker(place: Path) -> Iterator[bool]:
    """Whether ``place``, a file or folder, is still to be made; whoever asks meanwhile waits for the block's end.

    It must be written whole or not at all, with :func:`leakage_tasks.core.atomic.replacing`. Raises LeakageError where
    files cannot be locked.
    """
    from filelock import FileLock

    if place.exists():
        yield False
        return
    lock = FileLock(place.with_name(f".{place.name}.lock"))
    try:
        lock.acquire()
    except (OSError, NotImplementedError) as error:
        raise LeakageError(f"{place}: cannot be locked ({error}): choose another --output") from None
    try:
        yield not place.exists()
    finally:
        lock.release()
