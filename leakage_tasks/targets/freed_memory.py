"""Memory that was freed and that the C library keeps: handed back to the system where it grows."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable

import psutil

from leakage_tasks.targets.memory_budget import given_memory

GROWN = 1 << 26
"""Bytes by which a process may grow before what it has freed is handed back."""
GIVEN_SHARE = 1 / 12
"""The same as a share of the memory that a user allows, where that is less."""
PAUSE = 0.1
"""Seconds between two looks."""
BUSY = 0.05
"""The most of the time that handing back takes."""


def _trim() -> Callable[[int], int] | None:
    """The call of GNU's C library that hands back whole free pages; None on systems without it."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


class FreedMemory:
    """Watches how a process grows from pass to pass, and has the C library hand back what is free.

    GNU's allocator keeps the room of what is freed between blocks that live on, and often does not use it again for a
    tensor of the same size. So a process would grow by a part of each pass, whatever
    :class:`~leakage_tasks.targets.memory_budget.MemoryBudget` allows.
    """

    def __init__(self) -> None:
        self._trim = _trim()
        self._process = psutil.Process()
        self._usual: int | None = None
        self._next = 0.0

    def look(self) -> None:
        """Hand back what is free if the process has grown so much since that was done last, or since the first look."""
        started = time.monotonic()
        if self._trim is None or started < self._next:
            return
        self._next = started + PAUSE
        size = self._process.memory_info().rss
        if self._usual is None:
            self._usual = size
        elif size > self._usual + min(GROWN, GIVEN_SHARE * (given_memory() or math.inf)):
            self._trim(0)
            self._usual = self._process.memory_info().rss
            ended = time.monotonic()
            # A pass takes again what it needs, so that this may come after each.
            self._next = ended + max(PAUSE, (ended - started) / BUSY)
