"""The time limit of a pilot, and its progress bar."""

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

LIMIT = 180.0
"""Default time limit of a pilot in seconds."""


class PilotTimeUpError(BaseException):
    """Signal that ends an attack when its share of the pilot's time is up; not an Exception, so that no code handles
    it."""


class PilotWatch:
    """A pilot's clock and progress bar.

    The remaining time is split equally over the remaining groups of canaries, so that at least one canary of each group
    is attacked.
    """

    def __init__(
        self,
        seconds: float = LIMIT,
        out: TextIO | None = None,
        row: Callable[[KindPlan], str] | None = None,
    ) -> None:
        """Create the watch without starting its clock.

        Args:
            seconds: The time for all attacks of the pilot.
            out: The stream for the bar and the rows; None hides them.
            row: Function that formats the plan for one kind of canary as a line.

        Raises:
            OptionError: If ``seconds`` is not above 0.
        """
        if not seconds > 0:
            raise OptionError(f"--pilot_seconds is {seconds:g}: give more than 0, or --pilot 0 for no pilot")
        self._left, self._out, self._row = seconds, out, row
        self._deadline = float("inf")
        self._shown = 0
        self._bar: tqdm[None] | None = None

    def begin(self, canaries: int, what: str) -> None:
        """Show a progress bar over ``canaries`` canaries."""
        self._shown = 0
        self._bar = progress(canaries, what, unit="canary", shown=self._out is not None, file=self._out or sys.stderr)

    def say(self, words: str) -> None:
        """Show a line of text."""
        if self._out is not None:
            tqdm.write(words, file=self._out)

    def open_share(self, groups: int) -> None:
        """Start the next group's share of the time; ``groups`` groups remain, including this one."""
        self._deadline = time.perf_counter() + self._left / max(groups, 1)

    def close_share(self, spent: float) -> None:
        """Subtract the seconds of a group from the remaining time."""
        self._left = max(self._left - spent, 0.0)
        self._deadline = float("inf")

    @property
    def is_over(self) -> bool:
        """True if the time share of the current group is spent."""
        return time.perf_counter() >= self._deadline

    def passed(self, count: Count) -> None:
        """Show the number of rows that the current attacks have read. Raises PilotTimeUpError if their time is up."""
        self.check()
        if self._bar is not None:
            self._bar.set_postfix_str(f"{self._shown + count.rows:,} rows read", refresh=False)
            self._bar.update(0)

    def check(self) -> None:
        """Raise PilotTimeUpError if the time of the current attacks is up."""
        if self.is_over:
            raise PilotTimeUpError

    def attacked(self, canaries: int) -> None:
        """Show that ``canaries`` more canaries are complete."""
        if self._bar is not None:
            self._bar.update(canaries)

    def add_rows(self, rows: int) -> None:
        """Count the rows of attacks that have ended."""
        self._shown += rows

    def planned(self, kind: KindPlan) -> None:
        """Show the plan for one kind of canary."""
        if self._row is not None:
            self.say(self._row(kind))

    def end(self) -> None:
        """Close the progress bar."""
        if self._bar is not None:
            self._bar.close()
