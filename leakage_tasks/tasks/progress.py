"""A progress bar of attacks on many canaries: canaries that are done, rows per second, and the time left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from leakage_tasks.attacks import Finding
from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries import Canary
from leakage_tasks.core.processes import Processes
from leakage_tasks.core.progress import progress

OFTEN = 0.2
"""Seconds between two exchanges of progress between processes."""
BAR = "{l_bar}{bar}| {n_fmt}/{total_fmt} canaries [{elapsed}{postfix}]"
"""The format of the bar. The estimate of tqdm, which assumes equal canaries, is replaced by :func:`seconds_left`."""
LEAST_LEFT = 0.1
"""Least share of the mean rows per canary that is expected of canaries in progress."""
MEMORIZED, UNDECIDED = "memorized", "undecided"
KINDS = ("planted", "control")


class CanariesBar:
    """A progress bar of the ``canaries`` that all processes attack; one process shows it.

    It shows the numbers of canaries that are done, memorized (according to the samples), undecided (the rank is only
    bounded) and in progress, the rows that the model reads per second, and the time left. The rows of natural secrets
    are not shown, because the number of rows of a search reveals when it found the secret. The time is extrapolated
    from canaries that are done. It is absent until a canary of each remaining kind (planted or control) is done, and
    while the canaries in progress have taken more rows than expected of all remaining ones.

    Args:
        canaries: The canaries, which other methods identify by index.
        title: The text before the bar.
        processes: The processes that share the canaries, or None.
        shown: False hides the bar.
        clock: Returns the time in seconds.
        more: More arguments of tqdm.
    """

    def __init__(
        self,
        canaries: Sequence[Canary],
        title: str,
        processes: Processes | None = None,
        shown: bool = True,
        clock: Callable[[], float] = time.monotonic,
        **more: Any,
    ) -> None:
        self._canaries, self._processes, self._clock = canaries, processes, clock
        self._numbers = Counter(map(_kind, canaries))
        self._shows_rows = all(canary.kind != NATURAL for canary in canaries)
        self._read = [0] * len(canaries)
        self._begun: set[int] = set()
        self._new_counts: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._began = self._last_exchange = clock()
        self._bar = progress(
            len(canaries), title, unit="canary", shown=shown and bool(canaries), bar_format=BAR, miniters=0, **more
        )
        if processes is not None:
            processes.while_waiting = partial(self._show, False)

    def read(self, index: int, rows: int) -> None:
        """Add ``rows`` that were read for the canary at this index."""
        self._begin(index)
        self._new_counts[f"{_kind(self._canaries[index])} rows"] += rows
        self._read[index] += rows
        self._show(False)

    def done(self, index: int, finding: Finding) -> None:
        """Mark the canary at this index as done; ``finding`` is its finding in the form of the samples."""
        self._begin(index)
        kind, rows = _kind(self._canaries[index]), self._read[index]
        of_finding = {MEMORIZED: int(is_first(finding)), UNDECIDED: int(may_be_first(finding))}
        self._new_counts += Counter({f"{kind} done": 1, f"{kind} done rows": rows, **of_finding})
        self._show(True)

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Close the bar at the end of the ``with`` block, also after an error, so that the error is the last line."""
        try:
            yield
        finally:
            self._bar.close()

    def _begin(self, index: int) -> None:
        self._new_counts["begun"] += index not in self._begun
        self._begun.add(index)

    def _show(self, one_more: bool) -> None:
        now = self._clock()
        if not one_more and now - self._last_exchange < OFTEN:
            return
        self._last_exchange = now
        self._exchange()
        if self._bar.disable:
            return
        self._bar.set_postfix_str(self.words(now - self._began), refresh=False)
        done = sum(self._all[f"{kind} done"] for kind in KINDS)
        self._bar.update(done - self._bar.n)
        if done >= len(self._canaries):
            self._bar.close()

    def words(self, elapsed: float) -> str:
        """Return the text after the bar, ``elapsed`` seconds after it began."""
        done, rows = (sum(self._all[f"{kind} {what}"] for kind in KINDS) for what in ("done", "rows"))
        left = seconds_left(self._numbers, self._all, elapsed)
        parts = [
            f"about {self._bar.format_interval(left)} left" if left else "",
            f"{rows / elapsed:,.0f} rows/s" if rows and elapsed > 0 and self._shows_rows else "",
            f"{self._all[MEMORIZED]} memorized",
            f"{self._all[UNDECIDED]} undecided" if self._all[UNDECIDED] else "",
            f"{self._all['begun'] - done} in progress" if done < len(self._canaries) else "",
        ]
        return ", ".join(part for part in parts if part)

    def _exchange(self) -> None:
        """Exchange the numbers of rows read and canaries done with all processes."""
        if self._processes is None:
            self._all += self._new_counts
        else:
            names = (
                "begun",
                MEMORIZED,
                UNDECIDED,
                *(f"{kind} {what}" for kind in KINDS for what in ("rows", "done", "done rows")),
            )
            self._all = Counter({name: self._processes.count(name, self._new_counts[name]) for name in names})
        self._new_counts.clear()


def seconds_left(numbers: Counter[str], counts: Counter[str], elapsed: float) -> float | None:
    """Extrapolate the remaining seconds from canaries that are done.

    A remaining canary is expected to take the mean rows of the done canaries of its kind, less the rows already read
    for canaries in progress. If the attacks report no rows, each canary is expected to take the same time.

    Args:
        numbers: Number of canaries of each kind.
        counts: ``"KIND done"``: canaries of each kind that are done; ``"KIND done rows"``: their rows; ``"KIND rows"``:
            rows read for all canaries of the kind.
        elapsed: Seconds since the start.

    Returns:
        Seconds; 0 if all canaries are done. None if no canary of some remaining kind is done, or if the canaries in
        progress have read more rows than expected of all remaining ones: the done ones then were the easy ones.
    """
    rows = sum(counts[f"{kind} rows"] for kind in numbers)
    # Without rows, a canary counts as one row.
    unit, rows_left = (" done rows", 0.0) if rows else (" done", 0.0)
    rows = rows or sum(counts[f"{kind} done"] for kind in numbers)
    for kind, number in numbers.items():
        done = counts[f"{kind} done"]
        if number > done:
            if not done:
                return None
            expected = (number - done) * counts[f"{kind}{unit}"] / done
            read = max(0, counts[f"{kind} rows"] - counts[f"{kind} done rows"])
            if read > expected:
                return None
            rows_left += max(expected - read, LEAST_LEFT * expected)
    return rows_left * elapsed / rows if rows else 0.0


def is_first(finding: Finding) -> bool:
    """Return True if the secret has rank 1 or is the first guess; False for a band of ranks."""
    return 1 in (finding.rank, finding.place)


def may_be_first(finding: Finding) -> bool:
    """Return True if the finding leaves open whether the secret is the first: its rank is only bounded, or withheld."""
    if finding.rank is None:
        return finding.coarse
    return not is_first(finding) and finding.rank_low is not None and finding.rank_low <= 1


def _kind(canary: Canary) -> str:
    return KINDS[not canary.planted]
