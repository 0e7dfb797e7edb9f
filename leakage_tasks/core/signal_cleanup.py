"""What happens to half-written files when a signal ends the process: they are cleared away first."""

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
"""What the name of a folder begins and ends with in which something is being written."""
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a process, and would by themselves leave what it was writing behind."""
_OWNER = 0o700
_open: set[Path] = set()
"""The workshops of this process. One that was entered as a signal came may have no block to leave yet."""


@contextmanager
def workshop(parent: Path) -> Iterator[Path]:
    """A new folder that nobody else can look into, removed at the end with all that is in it."""
    place = parent / f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}"
    try:
        # Noted first: a signal may come as soon as the folder is there.
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
    """A new folder among the system's temporary ones, which no signal but KILL leaves behind."""
    with ended_in_order(), workshop(Path(tempfile.gettempdir())) as folder:
        yield folder


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let signals that end the process be met like Ctrl-C, and end it by them once all is cleared away.

    A second signal, or a second Ctrl-C, does not disturb that.
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
    """Whether a signal is met as Python meets it, in the thread that may say otherwise."""
    if threading.current_thread() is not threading.main_thread():
        return False
    usual = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    return signal.getsignal(number) == usual


def _clear(place: Path) -> None:
    if place in _open:
        shutil.rmtree(place, ignore_errors=True)
        _open.discard(place)
