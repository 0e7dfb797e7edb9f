"""The values of one run that a comparison pairs with values of another run, by task and document."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.contamination.finding import OrderFinding, contamination_finding_from_json
from leakage_tasks.attacks.finding import CONTEXT, EXTRAPOLATED
from leakage_tasks.attacks.membership.finding import membership_finding_from_json
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.task_names import CONTAMINATION, EXPOSURE, EXTRACTION, MEMBERSHIP, SUFFIXES, TEXTS, WINDOWS
from leakage_tasks.metrics.suffix_values import recalled
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.findings import CONTROL, CanaryDetail, Details
from leakage_tasks.report.load.format import NEVER
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.sample_lines import read_answers
from leakage_tasks.report.load.texts import read_texts
from leakage_tasks.stats.bits import LN2
from leakage_tasks.stats.exchangeable import gains

IN_ALL, ALL_TEXTS, PAIRS, DOCUMENTS, SHARDS, MEMBERS = (
    *("planted, all", "texts, all", "pairs", "documents"),
    *("shards", "members"),
)
NATURAL_SECRETS = "natural secrets"
"""Group of secrets that were not planted; the auditor does not choose the number of their copies."""
NOT_LEARNT = (planted_words(CONTEXT), planted_words(None))
"""Groups of planted canaries that no trained weight learnt from."""
RUNS_OF_CONTROLS = "runs of controls"
"""Group of texts that are searched for runs of the controls in place of the corpus."""
NON_MEMBERS = "non-members"
LOWER_BOUND = "lower_bound"
UNSURE = (LOWER_BOUND, EXTRAPOLATED)


@dataclass(frozen=True)
class Document:
    """One canary, pair, text or shard in two runs: its id, its group and its values, in bits or as 0 and 1.

    ``bound`` is True if one of the values is only a bound, or extrapolated; ``least`` states for both values if they
    are lower bounds. ``cluster`` is the number of the training document that a pair is cut from; None for all others.
    """

    id: str
    group: str
    before: float
    after: float
    bound: bool = False
    cluster: int | None = None
    least: tuple[bool, bool] = (False, False)

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before


class Compared(NamedTuple):
    """The value of a task that is compared: its title, its units, a mean or a share, and the groups that it may have
    besides numbers of copies."""

    title: str
    unit: str
    documents: Callable[[Run, Details], Iterator[Document]]
    kind: Literal["mean", "share"] = "share"
    controls: str = NEVER
    together: str = IN_ALL

    @property
    def measure(self) -> str:
        """The unit of the values, which follows a comma in the title; empty for shares."""
        return self.title.partition(", ")[2]


def documents_of(task: str, run: Run, details: Details) -> dict[str, Document]:
    """Return the documents of a task that have a value in one run, by id, as both ``before`` and ``after``.

    Raises ResultsError if the samples cannot be read.
    """
    if task in details.missing:
        raise ResultsError(f"{run.tasks[task].file}: {task}: {details.missing[task]}")
    return {document.id: document for document in COMPARED[task].documents(run, details)}


def documents_of_both(task: str, before: tuple[Run, Details], after: tuple[Run, Details]) -> list[Document]:
    """Return the documents of a task that have a value in both runs; empty if findings withhold the values.

    Raises ResultsError if no document has a value in both runs for another reason, or if samples cannot be read.
    """
    old, new = documents_of(task, *before), documents_of(task, *after)
    shared = [(document, new[name]) for name, document in old.items() if name in new]
    if not shared and not (task == EXTRACTION and all(_withhold_guesses(details) for _, details in (before, after))):
        raise ResultsError(
            f"{after[0].files[-1]}: no document of {task} has a value in both runs: compare runs on equal documents"
        )
    return [
        dataclasses.replace(
            document,
            after=other.after,
            bound=document.bound or other.bound,
            least=(document.least[0], other.least[1]),
        )
        for document, other in shared
    ]


def _withhold_guesses(details: Details) -> bool:
    """Return True if the findings of the extraction task do not state if the best guess is the secret."""
    return any(canary.extraction is not None and canary.extraction.coarse for canary in details.canaries)


def _one(name: str, group: str, value: float, bound: bool = False, cluster: int | None = None) -> Document:
    return Document(name, group, value, value, bound, cluster)


def _group(canary: CanaryDetail) -> str:
    if not canary.planted:
        return NEVER
    return NATURAL_SECRETS if canary.kind == NATURAL else planted_words(canary.tier)


def _exposures(run: Run, details: Details) -> Iterator[Document]:
    for canary in details.canaries:
        if canary.bits is not None:
            method = None if canary.exposure is None else canary.exposure.method
            document = _one(canary.id, _group(canary), canary.bits, method in UNSURE)
            yield dataclasses.replace(document, least=(method == LOWER_BOUND,) * 2)


def _extracted(run: Run, details: Details) -> Iterator[Document]:
    for canary in details.canaries:
        if canary.extracted is not None:
            yield _one(canary.id, _group(canary), float(canary.extracted))


def _suffixes(run: Run, details: Details) -> Iterator[Document]:
    for pair in details.pairs:
        yield _one(str(pair.selected.pair), PAIRS, recalled(pair.selected), cluster=pair.selected.document)


def _windows(run: Run, details: Details) -> Iterator[Document]:
    for name, cost in details.costs.items():
        yield _one(name, NEVER if name.startswith(CONTROL) else DOCUMENTS, cost)


def _texts(run: Run, details: Details) -> Iterator[Document]:
    """Yield each text, and again as a control if it was searched for runs of the controls."""
    for text in read_texts(run):
        for length, name, group in (
            (text.corpus, text.id, text.group),
            (text.controls, f"{text.id}, controls", RUNS_OF_CONTROLS),
        ):
            if length is not None:
                yield _one(name, group, float(length > 0))


def _memberships(run: Run, details: Details) -> Iterator[Document]:
    """Yield the mean bits per token of the texts of each cluster and class."""
    costs: dict[tuple[str, int], list[float]] = {}
    for finding, _ in read_answers(run, MEMBERSHIP, membership_finding_from_json):
        if "loss" in finding.scores and not finding.suspected:
            key = MEMBERS if finding.member else NON_MEMBERS, finding.cluster
            costs.setdefault(key, []).append(-finding.scores["loss"] / LN2)
    for (group, cluster), bits in costs.items():
        yield _one(f"{group} {cluster}", group, statistics.fmean(bits))


def _shards(run: Run, details: Details) -> Iterator[Document]:
    for finding, _ in read_answers(run, CONTAMINATION, contamination_finding_from_json):
        if isinstance(finding, OrderFinding):
            yield _one(str(finding.number), SHARDS, float(gains([(finding.canonical, finding.shuffled)])[0]))


COMPARED = {
    EXPOSURE: Compared("exposure, bits", "canary", _exposures, "mean"),
    EXTRACTION: Compared("share extracted", "canary", _extracted),
    SUFFIXES: Compared("recall", "pair", _suffixes),
    WINDOWS: Compared("cost, bits per token", "document", _windows, "mean"),
    TEXTS: Compared("share of texts with a run", "text", _texts, controls=RUNS_OF_CONTROLS, together=ALL_TEXTS),
    MEMBERSHIP: Compared("cost, bits per token", "text", _memberships, "mean", controls=NON_MEMBERS),
    CONTAMINATION: Compared("gain of the canonical order, bits", "shard", _shards, "mean"),
}
"""The tasks that can be compared."""
