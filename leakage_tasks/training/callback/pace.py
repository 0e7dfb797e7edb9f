"""Which points of a training run are measured, so that watching takes no more than its share of the time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """Keeps the time that measuring takes within ``share`` of the time trained so far; None lets everything pass.

    A point is affordable if what was spent, and twice what the latest measurement took, is within the share: once for
    this point, and once for the last of the run, which is measured in any case. Time decides only which points are
    measured, never what a measurement says.
    """

    def __init__(self, share: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self._share, self._clock = share, clock
        self._began = clock()
        self._spent = 0.0
        self.latest: float | None = None
        """Seconds that the latest measurement took; None before the first."""

    def affords(self) -> bool:
        """Whether one more point may be measured now. The first always may: what it costs is not known yet."""
        if self._share is None or self.latest is None:
            return True
        trained = self._clock() - self._began - self._spent
        return self._spent + 2 * self.latest <= self._share * trained

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count what happens inside as a measurement, also if it fails."""
        started = self._clock()
        try:
            yield
        finally:
            self.latest = self._clock() - started
            self._spent += self.latest
