"""Removal of unfinished files before a signal ends the process."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFIX, SUFFIX = ".leakage-", ".part"
"""Prefix and suffix of the names of temporary folders for unfinished writes."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a process and would leave its unfinished files behind."""
_OWNER = 0o700
_open: set[Path] = set()
"""The temporary folders of this process, including a folder whose block was interrupted before it started."""


@contextmanager
def workshop(parent: Path) -> Iterator[Path]:
    """Yield a new folder that only the owner can read; it is removed at the end with its contents."""
    place = parent / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
    try:
        # Noted first: a signal may arrive as soon as the folder exists.
        _open.add(place)
        try:
            place.mkdir(_OWNER)
        except OSError:
            _open.discard(place)
            raise
        yield place
    finally:
        _clear(place)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder in the system's temporary directory; it is removed even if a signal other than SIGKILL
    arrives."""
    with ended_in_order(), workshop(Path(tempfile.gettempdir())) as folder:
        yield folder


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Handle signals that end the process like Ctrl-C: clean up first, then let the signal end the process.

    A second signal, or a second Ctrl-C, does not interrupt the cleanup.
    """
    usual = {each: signal.getsignal(each) for each in (*ENDING, signal.SIGINT) if _is_ours(each)}
    received: list[int] = []

    def end(number: int, frame: Any) -> None:
        received.append(number)
        for each in usual:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    try:
        for each in usual:
            signal.signal(each, end)
        yield
    finally:
        for place in tuple(_open) if received else ():
            _clear(place)
        for each, met in usual.items():
            signal.signal(each, met)
        if received and received[0] != signal.SIGINT:
            os.kill(os.getpid(), received[0])


def _is_ours(number: int) -> bool:
    """Return True if a signal has Python's default handler and this thread is allowed to replace it."""
    if threading.current_thread() is not threading.main_thread():
        return False
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return signal.getsignal(number) == usual


def _clear(place: Path) -> None:
    if place in _open:
        shutil.rmtree(place, ignore_errors=True)
        _open.discard(place)
