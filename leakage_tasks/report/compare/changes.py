"""Two runs asked the same, canary by canary: what changed, what would have been missed; as a table and as a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.finding import EXTRAPOLATED
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.text_table import text_table
from leakage_tasks.metrics.suffix_values import recalled
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.comparability import differences, measured
from leakage_tasks.report.load.findings import EXPOSURE, EXTRACTION, SUFFIXES, Details, read_details
from leakage_tasks.report.load.format import NOTHING, number
from leakage_tasks.report.load.run import Run
from leakage_tasks.stats.intervals import LEVEL
from leakage_tasks.stats.paired import Difference, mean_difference, rate_difference

TITLES = {EXPOSURE: "exposure, bits", EXTRACTION: "share extracted", SUFFIXES: "recall"}
UNSURE = ("lower_bound", EXTRAPOLATED)
IN_ALL, NEVER, PAIRS = "planted, all", "controls", "pairs"
HEADS = ("", "n", "before", "after", "difference", "95 % interval", "p", "missed below")
READING = (
    "A difference is after less before, of the same canaries or pairs. p is two-sided, for no change: by flipping "
    "signs (means), McNemar's exact test (shares). Intervals are Student's and Newcombe's. A difference below the last "
    "column could have gone unnoticed: so many show it in fewer than 8 of 10 runs. Differences are of these models: "
    "training twice alike may make one as well."
)


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
        return [change for change in self.changes if change.task == task]

    def to_json(self) -> dict[str, Any]:
        """All of it, JSON-able."""
        return {
            "before": self.before,
            "after": self.after,
            "changes": [dataclasses.asdict(change) for change in self.changes],
            "documents": {task: [dataclasses.asdict(each) for each in own] for task, own in self.documents.items()},
        }


def compare(before: Run, after: Run) -> Comparison:
    """What changed between two runs in the leakage tasks that both have.

    Raises ResultsError for runs that were not asked the same, or logged no samples.
    """
    tasks = [task for task in TITLES if task in measured(before).keys() & measured(after).keys()]
    if not tasks:
        for run in (before, after):
            if any(result.predicted_only for result in run.tasks.values() if result.is_leakage):
                raise ResultsError(
                    f"{run.files[-1]}: the run had --predict_only, so nothing was scored: run lm_eval again without it"
                )
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
            yield Document(str(pair.selected.pair), PAIRS, recalled(pair.selected), recalled(pair.selected))
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
        yield _change(task, IN_ALL, [document for document in documents if document.group != NEVER])
    if never:
        yield _change(task, NEVER, never)


def copies_in(group: str) -> float:
    """How many copies a group of canaries has, by its name; controls come last."""
    digits = "".join(letter for letter in group if letter.isdigit())
    return float("inf") if group == NEVER else int(digits or 1)


def _change(task: str, group: str, documents: Sequence[Document]) -> Change:
    before, after = [document.before for document in documents], [document.after for document in documents]
    count = len(documents)
    if task == EXPOSURE:
        difference = mean_difference(before, after)
    else:
        difference = rate_difference([bool(each) for each in before], [bool(each) for each in after])
    bounds = sum(document.bound for document in documents)
    return Change(task, group, count, sum(before) / count, sum(after) / count, difference, bounds)


def as_text(comparison: Comparison) -> str:
    """A table a task, and below it in words what changed."""
    parts = [f"before: {comparison.before}\nafter:  {comparison.after}"]
    for task in comparison.documents:
        changes = comparison.changes_of(task)
        rows = [(f"{task}: {TITLES[task]}", *HEADS[1:]), *(_row(change) for change in changes)]
        parts.append("\n".join([text_table(rows), *(f"= {verdict}" for verdict in verdicts(changes))]))
    return "\n\n".join(parts)


def verdicts(changes: Sequence[Change]) -> Iterator[str]:
    """What changed in words: of the headline's canaries, of all planted ones, and of the controls."""
    for change in [*changes[:1], *(each for each in changes[1:] if each.group in (IN_ALL, NEVER))]:
        difference = change.difference
        if difference.p > 1 - LEVEL:
            missed = (
                ""
                if difference.min_detectable is None
                else f"; would have missed one below {number(difference.min_detectable)}"
            )
            words = f"no change shown (p = {difference.p:.2g}{missed})"
        else:
            way = "less" if difference.value < 0 else "more"
            words = f"{way} than before, by {number(abs(difference.value))} (p = {difference.p:.2g})"
            if change.group == NEVER:
                words += ": they were never planted, so something else than training on them changed"
        if change.bounds:
            words += f"; of {change.bounds} of {change.count} the exposure is a bound or extrapolated: raise budget="
        yield f"{change.task}: {change.group}: {words}"


def page(comparisons: Sequence[Comparison], picture: bytes | None) -> str:
    """All comparisons as one HTML document that loads nothing; ``picture`` is an SVG of slopes."""
    import base64

    from leakage_tasks.report.page.document import render

    return render(
        "changes.html",
        ("base.css", "table.css", "print.css", "changes.css"),
        loads=["img-src data:"],
        comparisons=comparisons,
        heads=HEADS,
        titles=TITLES,
        row=_row,
        verdicts=verdicts,
        number=number,
        picture=None if picture is None else base64.b64encode(picture).decode(),
        reading=READING,
    )


def _row(change: Change) -> tuple[str, ...]:
    difference = change.difference
    interval = NOTHING if difference.low is None else f"[{_signed(difference.low)}, {_signed(difference.high)}]"
    return (
        change.group,
        f"{change.count:,}",
        number(change.before),
        number(change.after),
        _signed(difference.value),
        interval,
        f"{difference.p:.2g}",
        number(difference.min_detectable),
    )


def _signed(value: float | None) -> str:
    shown = number(value)
    return f"+{shown}" if value is not None and value > 0 else shown.replace("-", "−", 1)
