"""Progress of a run over all of its canaries together: rows read of rows predicted."""

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
"""Seconds between two times that processes tell each other."""
MEMORIZED = "memorized"


class RowsBar:
    """A bar over the rows that all processes read for ``canaries``, shown by one of them.

    What is still to come is predicted from the canaries of the same kind (planted or control) that are done; until one
    is, from their spaces and the budget. After the bar stands how many canaries are done, of these memorized (as the
    findings that samples show say), searched and to come.
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
        self._news: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._told = 0.0
        self._bar = progress(sum(self._bounds.values()), title, unit="row", shown=shown and bool(canaries))
        if processes is not None:
            processes.meanwhile = partial(self._show, False)

    def read(self, place: int, rows: int) -> None:
        """So many rows more were read for the canary of a place."""
        self._read[place] += rows
        self._searched.add(place)
        self._news["rows"] += rows
        self._show(False)

    def done(self, place: int, finding: Finding) -> None:
        """The canary of a place is done, with a finding as samples show it."""
        kind = _kind(self._canaries[place])
        self._searched.discard(place)
        self._news += Counter({f"{kind} rows": self._read[place], kind: 1, MEMORIZED: int(is_first(finding))})
        self._show(True)

    @contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """Close the bar where the block ends in an error, which is to be the last line."""
        try:
            yield
        except BaseException:
            self._bar.close()
            raise

    def _show(self, one_more: bool) -> None:
        now = time.monotonic()
        if not one_more and now - self._told < OFTEN:
            return
        self._told = now
        self._tell()
        if self._bar.disable:
            return
        done, searched = self._all["planted"] + self._all["control"], len(self._searched)
        left = len(self._canaries) - done - searched
        words = f"canaries: {done} done ({self._all[MEMORIZED]} memorized), {searched} searched, {left} to come"
        self._bar.set_postfix_str(words, refresh=False)
        self._bar.total = max(round(self._predicted()), self._all["rows"])
        self._bar.update(self._all["rows"] - self._bar.n)
        if left + searched <= 0:
            self._bar.close()

    def _tell(self) -> None:
        """Learn what all processes have read and done, and tell them what this one has."""
        if self._processes is None:
            self._all += self._news
        else:
            names = ("rows", MEMORIZED, *(f"{kind}{what}" for kind in self._bounds for what in ("", " rows")))
            self._all = Counter({name: self._processes.count(name, self._news[name]) for name in names})
        self._news.clear()

    def _predicted(self) -> float:
        numbers = Counter(map(_kind, self._canaries))
        return sum(
            numbers[kind] * self._all[f"{kind} rows"] / self._all[kind] if self._all[kind] else bound
            for kind, bound in self._bounds.items()
        )


def is_first(finding: Finding) -> bool:
    """Whether the secret is the likeliest of all fillings, or the first guess; of a band of ranks that is not told."""
    return 1 in (finding.rank, finding.place)


def _kind(canary: Canary) -> str:
    return "planted" if canary.planted else "control"
