"""Two runs asked the same, canary by canary: what changed from one to the other, and what would have been missed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.finding import EXTRAPOLATED
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.suffix_values import recalled
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.reading.comparability import differences, measured
from leakage_tasks.report.reading.findings import EXPOSURE, EXTRACTION, SUFFIXES, Details, read_details
from leakage_tasks.report.reading.run import Run
from leakage_tasks.stats.paired import Difference, mean_difference, rate_difference

TITLES = {EXPOSURE: "exposure, bits", EXTRACTION: "share extracted", SUFFIXES: "recall"}
UNSURE = ("lower_bound", EXTRAPOLATED)
IN_ALL, NEVER, PAIRS = "planted, all", "controls", "pairs"


@dataclass(frozen=True)
class Document:
    """One canary or pair in two runs: its id, the group it belongs to and its values, bits or 0 and 1.

    ``bound`` where one of the values is no more than a bound, or extrapolated.
    """

    id: str
    group: str
    before: float
    after: float
    bound: bool = False

    @property
    def difference(self) -> float:
        """After less before."""
        return self.after - self.before


@dataclass(frozen=True)
class Change:
    """A figure of one group of documents before and after."""

    task: str
    """The task it is of."""
    group: str
    """Which documents: those planted equally often, all planted ones, controls or pairs."""
    count: int
    """How many documents."""
    before: float
    """Their mean before."""
    after: float
    """Their mean after."""
    difference: Difference
    """After less before, with its interval and test."""
    bounds: int = 0
    """How many of them are :attr:`Document.bound`."""


@dataclass(frozen=True)
class Comparison:
    """What changed from run ``before`` to run ``after``: by group, and document by document, by task."""

    before: str
    after: str
    changes: tuple[Change, ...]
    documents: Mapping[str, Sequence[Document]]

    def changes_of(self, task: str) -> list[Change]:
        """Those of one task's figures."""
        return [each for each in self.changes if each.task == task]

    def to_json(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        return {
            "before": self.before,
            "after": self.after,
            "changes": [dataclasses.asdict(each) for each in self.changes],
            "documents": {task: [dataclasses.asdict(each) for each in own] for task, own in self.documents.items()},
        }


def compare(before: Run, after: Run) -> Comparison:
    """What changed between two runs in the leakage tasks that both have.

    Raises ResultsError for runs that were not asked the same, or logged no samples.
    """
    tasks = [task for task in TITLES if task in measured(before).keys() & measured(after).keys()]
    if not tasks:
        raise ResultsError(
            f"{after.files[-1]}: has no leakage task in common with {before.files[-1]}: run the same tasks"
        )
    apart = differences(after, before)
    if apart:
        raise ResultsError(
            f"{after.files[-1]}: was not asked what {before.files[-1]} was ({'; '.join(apart)}): compare runs of the "
            "same manifest or pairs, with the same options"
        )
    found = [(run, read_details(run)) for run in (before, after)]
    documents = {}
    for task in tasks:
        old, new = ({each.id: each for each in _documents(task, *each)} for each in found)
        shared = [(each, new[name]) for name, each in old.items() if name in new]
        if not shared:
            raise ResultsError(f"{after.files[-1]}: no document of {task} has a figure in both runs")
        documents[task] = [
            dataclasses.replace(each, after=other.after, bound=each.bound or other.bound) for each, other in shared
        ]
    changes = tuple(change for task, own in documents.items() for change in _changes(task, own))
    return Comparison(before.name, after.name, changes, documents)


def _documents(task: str, run: Run, details: Details) -> Iterator[Document]:
    """The documents that one run has a figure of, which is before and after alike."""
    if task in details.missing:
        raise ResultsError(f"{run.tasks[task].file}: {task}: {details.missing[task]}")
    if task == SUFFIXES:
        for pair in details.pairs:
            yield Document(str(pair.reading.pair), PAIRS, recalled(pair.reading), recalled(pair.reading))
    for canary in details.canaries if task != SUFFIXES else ():
        value = canary.bits if task == EXPOSURE else canary.extracted
        if value is not None:
            group = planted_words(canary.repetitions) if canary.planted else NEVER
            unsure = canary.exposure is not None and canary.exposure.method in UNSURE
            yield Document(canary.id, group, float(value), float(value), unsure and task == EXPOSURE)


def _changes(task: str, documents: Sequence[Document]) -> Iterator[Change]:
    """A line a group, the fewest copies first; all planted ones after them where they are of several groups."""
    groups: dict[str, list[Document]] = {}
    for each in documents:
        groups.setdefault(each.group, []).append(each)
    never = groups.pop(NEVER, [])
    for group in sorted(groups, key=copies_in):
        yield _change(task, group, groups[group])
    if len(groups) > 1:
        yield _change(task, IN_ALL, [each for each in documents if each.group != NEVER])
    if never:
        yield _change(task, NEVER, never)


def copies_in(group: str) -> float:
    """How many copies a group of canaries has, by its name; controls come last."""
    digits = "".join(letter for letter in group if letter.isdigit())
    return float("inf") if group == NEVER else int(digits or 1)


def _change(task: str, group: str, documents: Sequence[Document]) -> Change:
    before, after = [each.before for each in documents], [each.after for each in documents]
    count = len(documents)
    if task == EXPOSURE:
        difference = mean_difference(before, after)
    else:
        difference = rate_difference([bool(each) for each in before], [bool(each) for each in after])
    bounds = sum(each.bound for each in documents)
    return Change(task, group, count, sum(before) / count, sum(after) / count, difference, bounds)
