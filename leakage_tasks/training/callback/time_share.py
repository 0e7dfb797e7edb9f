"""The time of measurements during training, and its limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

GROWTH = 8.0
"""Expected time of the first measurement with the whole budget, in multiples of the smaller one before the first
step."""
SECOND_TRY = 2.0
"""Expected time of the next measurement after one that was stopped, in multiples of the time until the stop."""


class OutOfTime(Exception):
    """Signal that a measurement would exceed its share of the training time."""


class TimeShare:
    """A limit on the time of measurements: ``share`` of the training time so far; None is no limit.

    A measurement starts if the time spent so far plus twice its expected time is within the share: once for this
    measurement, and once for the last of the run. It stops if the time spent exceeds the share after all. Time affects
    only which measurements are made, never their results.

    Args:
        share: Share of the training time.
        clock: Returns the time in seconds.
    """

    def __init__(self, share: float | None, clock: Callable[[], float] = time.perf_counter) -> None:
        self.share, self._clock = share, clock
        self._began = clock()
        self._started: float | None = None
        self.spent = 0.0
        """Seconds of all measurements."""
        self.made = 0
        """Number of measurements."""
        self.latest: float | None = None
        """Duration of the latest measurement in seconds; None before the first."""
        self.expected: float | None = None
        """Expected duration of the next measurement in seconds; None before the first."""

    @property
    def trained(self) -> float:
        """Seconds since the start without the time of measurements."""
        now = self._clock()
        return now - self._began - self.spent - (0.0 if self._started is None else now - self._started)

    @property
    def taken(self) -> float:
        """The time of all measurements as a share of the training time so far; 0 if there were none."""
        return self.spent / self.trained if self.spent and self.trained > 0 else 0.0

    def affords(self) -> bool:
        """Return True if a measurement may start now. The first always may, because its duration is unknown."""
        if self.share is None or self.expected is None:
            return True
        return self.spent + 2 * self.expected <= self.share * self.trained

    def check(self) -> None:
        """Raise OutOfTime if the measurement in progress exceeds the share."""
        if self.share is None or self._started is None:
            return
        if self.spent + self._clock() - self._started > self.share * self.trained:
            raise OutOfTime

    @contextmanager
    def timed(self, growth: float = 1.0) -> Iterator[None]:
        """Count the time inside the block as a measurement, even if it fails.

        ``growth`` is the expected time of the next measurement, in multiples of this one's.
        """
        self._started = started = self._clock()
        stopped = False
        try:
            yield
        except OutOfTime:
            stopped = True
            raise
        finally:
            self._started = None
            self.latest = self._clock() - started
            self.spent += self.latest
            self.made += not stopped
            self.expected = self.latest * (SECOND_TRY if stopped else growth)
