"""A progress bar of a run over all its canaries: number of rows that the model has read, and predicted total."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from leakage_tasks.attacks import Finding
from leakage_tasks.canaries import Canary
from leakage_tasks.core.processes import Processes
from leakage_tasks.core.progress import progress
from leakage_tasks.tasks.sharing import predicted_rows

OFTEN = 0.2
"""Seconds between two exchanges of progress between processes."""
MEMORIZED = "memorized"


class RowsBar:
    """A progress bar of the rows that all processes read for ``canaries``; one process shows it.

    The remaining rows are predicted from finished canaries of equal kind (planted or control), and before that from the
    canaries' spaces and the budget. The bar ends with the numbers of canaries that are done, memorized (according to
    the samples), in progress and waiting.
    """

    def __init__(
        self, canaries: Sequence[Canary], budget: int | None, title: str, processes: Processes | None, shown: bool
    ) -> None:
        self._canaries, self._processes = canaries, processes
        self._bounds: Counter[str] = Counter()
        for canary in canaries:
            self._bounds[_kind(canary)] += round(predicted_rows(canary, budget))
        self._read = [0] * len(canaries)
        self._searched: set[int] = set()
        self._new_counts: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._last_exchange = 0.0
        self._bar = progress(sum(self._bounds.values()), title, unit="row", shown=shown and bool(canaries))
        if processes is not None:
            processes.while_waiting = partial(self._show, False)

    def read(self, index: int, rows: int) -> None:
        """Add ``rows`` that were read for the canary at this index."""
        self._read[index] += rows
        self._searched.add(index)
        self._new_counts["rows"] += rows
        self._show(False)

    def done(self, index: int, finding: Finding) -> None:
        """Mark the canary at this index as done; ``finding`` is its finding in the form of the samples."""
        kind = _kind(self._canaries[index])
        self._searched.discard(index)
        self._new_counts += Counter({f"{kind} rows": self._read[index], kind: 1, MEMORIZED: int(is_first(finding))})
        self._show(True)

    @contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """Close the bar if the ``with`` block raises an error, so that the error is the last line."""
        try:
            yield
        except BaseException:
            self._bar.close()
            raise

    def _show(self, one_more: bool) -> None:
        now = time.monotonic()
        if not one_more and now - self._last_exchange < OFTEN:
            return
        self._last_exchange = now
        self._exchange()
        if self._bar.disable:
            return
        done, searched = self._all["planted"] + self._all["control"], len(self._searched)
        left = len(self._canaries) - done - searched
        words = f"canaries: {done} done ({self._all[MEMORIZED]} memorized), {searched} searched, {left} left"
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.total = max(round(self._predicted()), self._all["rows"])
        self._bar.update(self._all["rows"] - self._bar.n)
        if left + searched <= 0:
            self._bar.close()

    def _exchange(self) -> None:
        """Exchange the numbers of rows read and canaries done with all processes."""
        if self._processes is None:
            self._all += self._new_counts
        else:
            names = ("rows", MEMORIZED, *(f"{kind}{what}" for kind in self._bounds for what in ("", " rows")))
            self._all = Counter({name: self._processes.count(name, self._new_counts[name]) for name in names})
        self._new_counts.clear()

    def _predicted(self) -> float:
        numbers = Counter(map(_kind, self._canaries))
        return sum(
            numbers[kind] * self._all[f"{kind} rows"] / self._all[kind] if self._all[kind] else bound
            for kind, bound in self._bounds.items()
        )


def is_first(finding: Finding) -> bool:
    """Return True if the secret has rank 1 or is the first guess; False for a band of ranks."""
    return 1 in (finding.rank, finding.place)


def _kind(canary: Canary) -> str:
    return "planted" if canary.planted else "control"
