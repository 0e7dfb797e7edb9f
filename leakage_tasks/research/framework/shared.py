"""What several trials need and one of them makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leakage_tasks.core.errors import LeakageError


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
