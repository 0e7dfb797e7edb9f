"""Return of freed memory to the system: the C library would keep it, and the process would grow."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable

import psutil

from leakage_tasks.targets.memory_budget import allowed_memory

GROWN = 1 << 26
"""Growth of the process in bytes that triggers a return of freed memory."""
GIVEN_SHARE = 1 / 12
"""Growth that triggers it as a share of the memory that the user allows, if that is less than :data:`GROWN`."""
PAUSE = 0.1
"""Seconds between two checks."""
BUSY = 0.05
"""Maximum share of the time that returning memory may take."""


def _trim() -> Callable[[int], int] | None:
    """Return ``malloc_trim`` of the GNU C library, which releases whole free pages, or None on other systems."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


class FreedMemory:
    """Monitor of a process' size between forward passes, which makes the C library return freed memory.

    GNU's allocator keeps freed room between blocks that are still in use, and often does not reuse it for a tensor of
    equal size. The process would therefore grow with each pass, beyond the limits of
    :class:`~leakage_tasks.targets.memory_budget.MemoryBudget`.
    """

    def __init__(self) -> None:
        self._trim = _trim()
        self._process = psutil.Process()
        self._usual: int | None = None
        self._next = 0.0

    def look(self) -> None:
        """Return freed memory if the process has grown past the limit since the first call or the last return."""
        started = time.monotonic()
        if self._trim is None or started < self._next:
            return
        self._next = started + PAUSE
        size = self._process.memory_info().rss
        if self._usual is None:
            self._usual = size
        elif size > self._usual + min(GROWN, GIVEN_SHARE * (allowed_memory() or math.inf)):
            self._trim(0)
            self._usual = self._process.memory_info().rss
            ended = time.monotonic()
            # Each pass allocates its memory again, so growth may recur after every pass; limit the share of time.
            self._next = ended + max(PAUSE, (ended - started) / BUSY)
