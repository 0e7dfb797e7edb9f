"""Comparison of two runs with equal protocols, canary by canary: changes and detectable changes, as table and page."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.nouns import counted, p_text
from leakage_tasks.core.task_names import EXPOSURE
from leakage_tasks.core.text_table import text_table
from leakage_tasks.report.compare.documents import (
    ALL_TEXTS,
    COMPARED,
    IN_ALL,
    NATURAL_SECRETS,
    NON_MEMBERS,
    NOT_LEARNT,
    RUNS_OF_CONTROLS,
    Document,
    documents_of_both,
)
from leakage_tasks.report.load.comparability import check_scored, differences, measured
from leakage_tasks.report.load.findings import read_details
from leakage_tasks.report.load.format import NEVER, NOTHING, number
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.texts import UNTARGETED_PROMPTS
from leakage_tasks.stats.intervals import LEVEL
from leakage_tasks.stats.multiple import holm
from leakage_tasks.stats.paired import Difference, fewest_units, mean_difference, rate_difference

_CAUSES = {
    NEVER: ": they were never planted, so the change has another cause than training on them",
    RUNS_OF_CONTROLS: ": the model never saw the controls, so the change has another cause than training on them",
    NON_MEMBERS: ": the model never saw them, so the change has another cause than training on them",
}
"""Notes on a change of the controls."""
WITHHELD = "not compared, because runs do not state which natural secrets were extracted"
HEADS = ("", "n", "before", "after", "difference", "95 % interval", "p", "detectable")
READING = (
    "A difference is after minus before, for canaries, pairs, texts or shards of both runs. A lower cost per token "
    "means that the model knows a text better. p is two-sided, for no change: from sign flips (means, and shares of "
    "several pairs per document) or McNemar's exact test (other shares). Intervals are Student's and Newcombe's; "
    "those of shares are approximate, so p decides if an interval without 0 has a p above 5 %. Verdicts correct p for "
    "the number of groups of a task that they state (Holm); p and the last column are not. A difference smaller "
    "than the last column can go unnoticed: a test of one group shows it in fewer than 8 of 10 runs. Differences "
    "are between these two models: a second training with equal settings may also change the values."
)


@dataclass(frozen=True)
class Change:
    """The mean of one group of documents before and after."""

    task: str
    """The task's name."""
    group: str
    """The group's name: a number of copies, all planted canaries, controls or pairs."""
    count: int
    """The number of documents."""
    before: float
    """The mean before."""
    after: float
    """The mean after."""
    difference: Difference
    """After minus before, with interval and test."""
    bounds: int = 0
    """The number of documents with :attr:`Document.bound`."""


@dataclass(frozen=True)
class Comparison:
    """The changes from run ``before`` to run ``after``: by group, and by task and document."""

    before: str
    after: str
    changes: tuple[Change, ...]
    documents: Mapping[str, Sequence[Document]]
    withheld: tuple[str, ...] = ()
    """The tasks that are not compared because both runs withhold the values."""

    def changes_of(self, task: str) -> list[Change]:
        """Return the changes of one task."""
        return [change for change in self.changes if change.task == task]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON-able values."""
        return {
            "before": self.before,
            "after": self.after,
            "changes": [dataclasses.asdict(change) for change in self.changes],
            "documents": {
                task: [dataclasses.asdict(document) for document in documents]
                for task, documents in self.documents.items()
            },
            "withheld": list(self.withheld),
        }

    def left_out(self) -> list[str]:
        """Return a line for each task that is not compared."""
        return [f"{task}: {WITHHELD}" for task in self.withheld]


def compare(before: Run, after: Run) -> Comparison:
    """Compare two runs in the leakage tasks that both have.

    Raises ResultsError for runs with different protocols or without samples.
    """
    tasks = [task for task in COMPARED if task in measured(before).keys() & measured(after).keys()]
    if not tasks:
        for run in (before, after):
            check_scored(run)
        shared = ", ".join(sorted(measured(before).keys() & measured(after).keys()))
        lacks = f"has only tasks that cannot be compared ({shared})" if shared else "has no leakage task"
        raise ResultsError(
            f"{after.files[-1]}: {lacks} in common with {before.files[-1]}: run one of {', '.join(COMPARED)} on both"
        )
    reasons = differences(after, before)
    if reasons:
        raise ResultsError(
            f"{after.files[-1]}: ran with another protocol than {before.files[-1]} ({'; '.join(reasons)}): compare "
            "runs with equal options on one manifest or set of pairs"
        )
    details = [(run, read_details(run)) for run in (before, after)]
    of_all = {task: documents_of_both(task, *details) for task in tasks}
    documents = {task: shared for task, shared in of_all.items() if shared}
    withheld = tuple(task for task, shared in of_all.items() if not shared)
    if not documents:
        raise ResultsError(f"{after.files[-1]}: {', '.join(withheld)}: {WITHHELD}: run {EXPOSURE} on both models")
    changes = tuple(change for task, compared in documents.items() for change in _changes(task, compared))
    return Comparison(before.name, after.name, changes, documents, withheld)


def _changes(task: str, documents: Sequence[Document]) -> Iterator[Change]:
    """Yield one change per group: the fewest copies first, all planted canaries together, natural secrets, controls."""
    groups: dict[str, list[Document]] = {}
    for document in documents:
        groups.setdefault(document.group, []).append(document)
    controls = COMPARED[task].controls
    unplanted = {group: groups.pop(group, []) for group in (NATURAL_SECRETS, controls)}
    for group in sorted(groups, key=lambda group: (group != UNTARGETED_PROMPTS, copies_in(group), group)):
        yield _change(task, group, groups[group])
    if len(groups) > 1:
        yield _change(task, COMPARED[task].together, [document for document in documents if document.group in groups])
    for group, listed in unplanted.items():
        if listed:
            yield _change(task, group, listed)


def copies_in(group: str) -> float:
    """Return a group's number of copies, parsed from its name; infinity for canaries of no repetition count."""
    digits = "".join(letter for letter in group if letter.isdigit())
    return float("inf") if group in (NATURAL_SECRETS, NEVER, *NOT_LEARNT) else int(digits or 1)


def _change(task: str, group: str, documents: Sequence[Document]) -> Change:
    before, after = [document.before for document in documents], [document.after for document in documents]
    count = len(documents)
    if COMPARED[task].kind == "mean":
        difference = mean_difference(before, after)
    else:
        clusters = [index if document.cluster is None else document.cluster for index, document in enumerate(documents)]
        difference = rate_difference([bool(hit) for hit in before], [bool(hit) for hit in after], clusters)
    bounds = sum(document.bound for document in documents)
    return Change(task, group, count, sum(before) / count, sum(after) / count, difference, bounds)


def as_text(comparison: Comparison) -> str:
    """Return one table per task, with verdicts below."""
    parts = [f"before: {comparison.before}\nafter:  {comparison.after}"]
    for task in comparison.documents:
        changes = comparison.changes_of(task)
        rows = [(f"{task}: {COMPARED[task].title}", *HEADS[1:]), *(_row(change) for change in changes)]
        parts.append("\n".join([text_table(rows), *(f"= {verdict}" for verdict in verdicts(changes))]))
    return "\n\n".join([*parts, *(f"= {line}" for line in comparison.left_out())])


def verdicts(changes: Sequence[Change]) -> Iterator[str]:
    """Yield the verdicts on the lowest number of copies, all planted canaries, natural secrets and controls of a task.

    They are tested together at 5 % (Holm 1979); groups that are too small to show a change are not tested.
    """
    judged = (IN_ALL, ALL_TEXTS, NATURAL_SECRETS, *_CAUSES)
    listed = [*changes[:1], *(change for change in changes[1:] if change.group in judged)]
    tested = [index for index, change in enumerate(listed) if change.difference.can_be_shown]
    corrected = dict(zip(tested, holm([listed[index].difference.p for index in tested]), strict=True))
    # Holm's method compares the lowest p-value of the groups without a change with 5 % divided by their number.
    left = sum(p > 1 - LEVEL for p in corrected.values())
    for index, change in enumerate(listed):
        words = _verdict(change, corrected.get(index, 1.0), max(1, left), len(tested))
        if change.bounds:
            words += f"; {change.bounds} of {change.count} exposures are bounds or extrapolated: raise budget="
        yield f"{change.task}: {change.group}: {words}"


def _verdict(change: Change, corrected: float, left: int, groups: int) -> str:
    """Return the verdict on one group.

    ``corrected`` is its p-value, corrected for the number of tested ``groups``, of which ``left`` show no change.
    """
    difference = change.difference
    if corrected <= 1 - LEVEL:
        direction = "less" if difference.value < 0 else "more"
        words = f"{direction} than before, by {_amount(change, abs(difference.value))} (p = {p_text(difference.p)})"
        return words + _CAUSES.get(change.group, "")
    needed = fewest_units(left)
    if difference.units < needed:
        unit = COMPARED[change.task].unit if difference.units == change.count else "document"
        few = counted(difference.units, unit)
        return f"inconclusive: {few} cannot show a change, at least {needed} are needed"
    reasons = [f"p = {p_text(difference.p)}"]
    if difference.p <= 1 - LEVEL:
        reasons[0] += f", above 5 % when corrected for {groups} groups"
    if difference.min_detectable is not None:
        alone = ", if tested alone" if groups > 1 else ""
        reasons.append(f"smallest detectable change {_amount(change, difference.min_detectable)}{alone}")
    return f"no change shown ({'; '.join(reasons)})"


def page(comparisons: Sequence[Comparison], picture: str | None) -> str:
    """Return all comparisons as one HTML document without external resources; ``picture`` is the address of a plot."""
    from leakage_tasks.report.page.document import render

    return render(
        "changes.html",
        ("base.css", "table.css", "plots.css", "print.css", "changes.css"),
        comparisons=comparisons,
        heads=HEADS,
        titles={task: compared.title for task, compared in COMPARED.items()},
        row=_row,
        verdicts=verdicts,
        number=number,
        minus=_minus,
        signed=_signed,
        picture=picture,
        reading=READING,
    )


def _row(change: Change) -> tuple[str, ...]:
    difference = change.difference
    interval = NOTHING if difference.low is None else f"[{_signed(difference.low)}, {_signed(difference.high)}]"
    return (
        change.group,
        f"{change.count:,}",
        _minus(number(change.before)),
        _minus(number(change.after)),
        _signed(difference.value),
        interval,
        p_text(difference.p),
        number(difference.min_detectable),
    )


def _signed(value: float | None) -> str:
    shown = number(value)
    return f"+{shown}" if value is not None and value > 0 else _minus(shown)


def _minus(shown: str) -> str:
    """Return a number with the sign for minus."""
    return f"−{shown[1:]}" if shown.startswith("-") else shown


def _amount(change: Change, value: float) -> str:
    """Return a value with its unit."""
    return f"{number(value)} {COMPARED[change.task].measure}".rstrip()
