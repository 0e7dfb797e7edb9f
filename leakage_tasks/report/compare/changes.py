"""Two runs asked the same, canary by canary: what changed from one to the other, and what would have been missed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.finding import EXTRAPOLATED
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.metrics.suffixes import recalled
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.reading.comparability import differences, measured
from leakage_tasks.report.reading.findings import EXPOSURE, EXTRACTION, SUFFIXES, Details, read_details
from leakage_tasks.report.reading.run import Run
from leakage_tasks.stats.paired import Difference, mean_difference, rate_difference

TITLES = {EXPOSURE: "exposure, bits", EXTRACTION: "share extracted", SUFFIXES: "recall"}
UNSURE = ("lower_bound", EXTRAPOLATED)
IN_ALL, NEVER, PAIRS = "planted, all", "controls", "pairs"
Test = Callable[[Sequence[Any], Sequence[Any]], Difference]


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


@dataclass(frozen=True)
class Change:
    """A figure of one group of ``count`` documents before and after; ``bounds`` counts :attr:`Document.bound`."""

    task: str
    group: str
    count: int
    before: float
    after: float
    difference: Difference
    bounds: int = 0


@dataclass(frozen=True)
class Comparison:
    """What changed from run ``before`` to run ``after``: by group, and document by document, by task."""

    before: str
    after: str
    changes: tuple[Change, ...]
    documents: Mapping[str, Sequence[Document]]

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
    tasks = [task for task in TITLES if task in measured(before) and task in measured(after)]
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
    documents = {task: _documents(task, found) for task in tasks}
    changes = tuple(change for task, own in documents.items() for change in _changes(task, own))
    return Comparison(before.name, after.name, changes, documents)


def _documents(task: str, found: Sequence[tuple[Run, Details]]) -> list[Document]:
    """The documents that both runs have a figure of."""
    (before, groups, loose), (after, _, looser) = (_values(task, run, details) for run, details in found)
    shared = [name for name in before if name in after]
    if not shared:
        raise ResultsError(f"{found[1][0].files[-1]}: no document of {task} has a figure in both runs")
    return [Document(name, groups[name], before[name], after[name], name in loose | looser) for name in shared]


def _values(task: str, run: Run, details: Details) -> tuple[dict[str, float], dict[str, str], set[str]]:
    """What each document gives, its group, and those of which that is no more than a bound, or extrapolated."""
    if task in details.missing:
        raise ResultsError(f"{run.tasks[task].file}: {task}: {details.missing[task]}")
    if task == SUFFIXES:
        recall = {str(each.reading.pair): recalled(each.reading) for each in details.pairs}
        return recall, dict.fromkeys(recall, PAIRS), set()
    values: dict[str, float] = {}
    groups = {}
    for canary in details.canaries:
        value = canary.bits if task == EXPOSURE else canary.extracted
        if value is not None:
            values[canary.id] = float(value)
            groups[canary.id] = planted_words(canary.repetitions) if canary.planted else NEVER
    loose = {each.id for each in details.canaries if each.exposure and each.exposure.method in UNSURE}
    return values, groups, loose if task == EXPOSURE else set()


def _changes(task: str, documents: Sequence[Document]) -> Iterator[Change]:
    """A line a group, the fewest copies first; all planted ones after them where they are of several groups."""
    planted = [each for each in documents if each.group != NEVER]
    groups = sorted({each.group for each in planted}, key=copies_in)
    for group in groups:
        yield _change(task, group, [each for each in planted if each.group == group])
    if len(groups) > 1:
        yield _change(task, IN_ALL, planted)
    never = [each for each in documents if each.group == NEVER]
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
