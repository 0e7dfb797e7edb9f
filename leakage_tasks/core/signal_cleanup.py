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
def private_folder(parent: Path) -> Iterator[Path]:
    """Yield a new folder that only the owner can read; it is removed at the end with its contents."""
    folder = parent / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
    try:
        # Noted first: a signal may arrive as soon as the folder exists.
        _open.add(folder)
        try:
            folder.mkdir(_OWNER)
        except OSError:
            _open.discard(folder)
            raise
        yield folder
    finally:
        _clear(folder)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder in the system's temporary directory; it is removed even if a signal other than SIGKILL
    arrives."""
    with cleanup_on_signals(), private_folder(Path(tempfile.gettempdir())) as folder:
        yield folder


@contextmanager
def cleanup_on_signals() -> Iterator[None]:
    """Handle signals that end the process like Ctrl-C: clean up first, then let the signal end the process.

    A second signal, or a second Ctrl-C, does not interrupt the cleanup.
    """
    usual = {
        signal_number: signal.getsignal(signal_number)
        for signal_number in (*ENDING, signal.SIGINT)
        if _has_default_handler(signal_number)
    }
    received: list[int] = []

    def end(number: int, frame: Any) -> None:
        received.append(number)
        for signal_number in usual:
            signal.signal(signal_number, signal.SIG_IGN)
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    try:
        for signal_number in usual:
            signal.signal(signal_number, end)
        yield
    finally:
        for folder in tuple(_open) if received else ():
            _clear(folder)
        for signal_number, handler in usual.items():
            signal.signal(signal_number, handler)
        if received and received[0] != signal.SIGINT:
            os.kill(os.getpid(), received[0])


def _has_default_handler(number: int) -> bool:
    """Return True if a signal has Python's default handler and this thread is allowed to replace it."""
    if threading.current_thread() is not threading.main_thread():
        return False
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return signal.getsignal(number) == usual


def _clear(folder: Path) -> None:
    if folder in _open:
        shutil.rmtree(folder, ignore_errors=True)
        _open.discard(folder)
