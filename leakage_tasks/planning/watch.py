"""The time limit of a pilot, and the bar and rows by which its user follows it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from tqdm import tqdm

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.progress import progress
from leakage_tasks.planning.meter import Count

if TYPE_CHECKING:
    from leakage_tasks.planning.estimate import KindPlan

LIMIT = 120.0
"""Seconds of a pilot, unless asked for otherwise."""


class PilotTimeUpError(BaseException):
    """The end of an attack whose share of the pilot's time is up; no error, so that no attack or model handles it."""


class PilotWatch:
    """A pilot's clock and progress bar.

    The time that is left is shared equally by the groups of canaries that are left, so that of each one canary is
    attacked at least.
    """

    def __init__(
        self,
        seconds: float = LIMIT,
        out: TextIO | None = None,
        row: Callable[[KindPlan], str] | None = None,
    ) -> None:
        """Start no clock yet.

        Args:
            seconds: The time for all attacks of the pilot.
            out: Where the bar and the rows are shown; None shows none.
            row: Returns a plan of one kind of canaries in a line.

        Raises:
            OptionError: If the time is not above 0.
        """
        if not seconds > 0:
            raise OptionError(f"--pilot_seconds is {seconds:g}: give more than 0, or --pilot 0 for no pilot")
        self._left, self._out, self._row = seconds, out, row
        self._deadline = float("inf")
        self._shown = 0
        self._bar: tqdm[None] | None = None

    def begin(self, canaries: int, what: str) -> None:
        """Show a bar over so many canaries."""
        self._shown = 0
        self._bar = progress(canaries, what, unit="canary", shown=self._out is not None, file=self._out or sys.stderr)

    def say(self, words: str) -> None:
        """Show a line."""
        if self._out is not None:
            tqdm.write(words, file=self._out)

    def open_share(self, groups: int) -> None:
        """Give the next group its share of the time, ``groups`` being left with it."""
        self._deadline = time.perf_counter() + self._left / max(groups, 1)

    def close_share(self, spent: float) -> None:
        """Take the seconds that a group spent off the time that is left."""
        self._left = max(self._left - spent, 0.0)
        self._deadline = float("inf")

    @property
    def is_over(self) -> bool:
        """Whether the share of the current group is spent."""
        return time.perf_counter() >= self._deadline

    def passed(self, count: Count) -> None:
        """Show the rows that the current attack has read. Raises PilotTimeUpError if its time is up."""
        self.read(0, 0)
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self._shown + count.rows:,} rows read", refresh=False)
            self._bar.update(0)

    def read(self, place: int, rows: int) -> None:
        """Raise PilotTimeUpError if the time of the current attack is up; for models that no pass is counted of."""
        if self.is_over:
            raise PilotTimeUpError

    def attacked(self, canaries: int, rows: float) -> None:
        """Show that so many canaries more are done, for which so many rows were read."""
        self._shown += round(rows)
        if self._bar is not None:
            self._bar.update(canaries)

    def planned(self, kind: KindPlan) -> None:
        """Show the plan of one kind of canaries."""
        if self._row is not None:
            self.say(self._row(kind))

    def end(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
