"""Findings of a run's samples by document: each canary and each prefix-suffix pair, with the results of all tasks.

This module removes everything that could reveal a secret of kind ``natural``, before any report uses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeVar

from leakage_tasks.attacks.coarse import NATURAL, coarsened
from leakage_tasks.attacks.finding import EXTRAPOLATED, FIT, Finding, finding_from_json
from leakage_tasks.attacks.suffix.finding import (
    HEADLINE,
    SelectedView,
    Selection,
    SuffixFinding,
    suffix_finding_from_json,
)
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION, SUFFIXES, WINDOWS
from leakage_tasks.metrics.extraction import within_ten
from leakage_tasks.report.load.run import Run
from leakage_tasks.report.load.sample_lines import NoAnswers, read_answers

CONTROL = "control"
"""First word of the name of a control document."""
ELSEWHERE = "give the file as lm_eval wrote it, or move it to another folder for a report without it"
"""Remedy for samples that hold no finding."""
Found = TypeVar("Found", Finding, SuffixFinding)


@dataclass(frozen=True)
class CanaryDetail:
    """One canary with the finding of each task.

    For natural secrets, revealing fields are None or coarse, unless both the run and the report reveal them.
    """

    id: str
    """The id in the manifest."""
    planted: bool
    """False for a control."""
    kind: str
    """``random``, ``organic`` or ``natural``."""
    template: str | None = None
    """The text around the secret."""
    secret: tuple[str, ...] | None = None
    """The secret: one text per slot."""
    label: str | None = None
    """The class or tags it was planted with."""
    exposure: Finding | None = None
    """The finding of the exposure task."""
    extraction: Finding | None = None
    """The finding of the extraction task."""

    @property
    def bits(self) -> float | None:
        """The exposure in bits, or None if it was not measured."""
        return None if self.exposure is None else self.exposure.exposure

    @property
    def tier(self) -> int | None:
        """The tier of the canary's findings; None if the model never read it."""
        finding = self.exposure or self.extraction
        return None if finding is None else finding.tier

    @property
    def extracted(self) -> bool | None:
        """True if the best guess is the secret; None if there was no guess."""
        finding = self.extraction
        return None if finding is None or finding.correct is None else all(finding.correct)

    @property
    def guessed(self) -> Finding | None:
        """The finding with the most informative guesses: from the extraction task, else from the exposure task."""
        if self.extraction is not None:
            return self.extraction
        return self.exposure if self.exposure is not None and self.exposure.correct is not None else None

    @property
    def within_ten(self) -> bool | None:
        """True if a natural secret is among the first ten guesses; None if the finding does not state it."""
        finding = self.extraction
        hit = None if finding is None or not finding.coarse else within_ten(finding)
        return None if hit is None else bool(hit)

    def right(self, index: int) -> tuple[bool, ...] | None:
        """Return per slot if guess ``index`` (from 0) is right, or None if that is unknown."""
        finding = self.guessed
        if finding is None:
            return None
        if self.secret is not None and index < len(finding.guesses):
            filling = finding.guesses[index].filling
            if len(filling) == len(self.secret):
                return tuple(left == true for left, true in zip(filling, self.secret, strict=True))
        return finding.correct if index == 0 else None


@dataclass(frozen=True)
class PairDetail:
    """One pair of prefix and suffix under the run's own settings; tokens only if the report reveals them."""

    selected: SelectedView
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    guesses: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Details:
    """Findings on one run's documents; ``left_out`` counts pairs without a selected finding.

    ``costs`` are the mean costs of suffixes by document of the task ``memorization``, in bits per token; names of
    controls begin with a word for them.
    ``missing`` gives, by task, the reason why its findings are missing.
    """

    canaries: tuple[CanaryDetail, ...] = ()
    pairs: tuple[PairDetail, ...] = ()
    left_out: int = 0
    costs: Mapping[str, float] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


def read_details(run: Run, *, reveal: bool = False) -> Details:
    """Read the samples next to a run's results. Raises ResultsError naming file and line.

    ``reveal`` keeps natural secrets and training text, as far as the run logged them.
    """
    missing: dict[str, str] = {}
    logged: dict[tuple[str, str], list[tuple[str, Mapping[str, Any], Finding]]] = {}
    for task in (EXPOSURE, EXTRACTION):
        for doc, finding in _findings(run, task, finding_from_json, missing):
            # Two tasks of a run may use different manifests that share ids.
            logged.setdefault((finding.manifest, finding.canary), []).append((task, doc, finding))
    canaries = tuple(_canary(findings, reveal) for findings in logged.values())
    suffixes = _findings(run, SUFFIXES, suffix_finding_from_json, missing)
    pairs = [_pair(doc, finding, reveal) for doc, finding in suffixes if not finding.control]
    selected = tuple(pair for pair in pairs if pair is not None)
    costs = _document_costs(finding for _, finding in _findings(run, WINDOWS, suffix_finding_from_json, missing))
    return Details(canaries, selected, len(pairs) - len(selected), costs, missing)


def _document_costs(findings: Iterable[SuffixFinding]) -> dict[str, float]:
    """Return the mean bits per token of each document's suffixes; documents without costs are left out."""
    costs: dict[str, list[float]] = {}
    for finding in findings:
        view = finding.views.get(HEADLINE)
        if view is not None and view.own_bits is not None:
            number = abs(finding.pair) if finding.document is None else finding.document
            name = f"{CONTROL if finding.control else 'document'} {number}"
            costs.setdefault(name, []).append(view.own_bits / view.suffix_length)
    return {name: fmean(values) for name, values in costs.items()}


def _findings(
    run: Run, task: str, read: Callable[[str], Found], missing: dict[str, str]
) -> Iterator[tuple[Mapping[str, Any], Found]]:
    """Yield a task's documents with their findings in the main column; set ``missing`` if there is no finding."""
    try:
        for finding, row in read_answers(run, task, read, ELSEWHERE):
            yield row.get("doc") or {}, finding
    except NoAnswers as error:
        missing[task] = error.reason


def _canary(logged: Sequence[tuple[str, Mapping[str, Any], Finding]], reveal: bool) -> CanaryDetail:
    """Return the details of one canary from its findings, each with its task and document.

    A run may reveal secrets that this report must not show. The kind in any finding or document is enough to hide them.
    """
    _, doc, first = logged[0]
    hidden = not reveal and any(NATURAL in (finding.kind, doc.get("kind")) for _, doc, finding in logged)
    known, secret = (first.canary, first.planted), doc.get("secret")
    if hidden:
        canary = CanaryDetail(*known, NATURAL)
    else:
        shown = None if secret is None else tuple(map(str, secret))
        canary = CanaryDetail(*known, first.kind, template=doc.get("template"), secret=shown, label=doc.get("label"))
    for task, _, finding in logged:
        canary = _with(canary, task, coarsened(dataclasses.replace(finding, kind=NATURAL)) if hidden else finding)
    return canary


def _with(canary: CanaryDetail, task: str, finding: Finding) -> CanaryDetail:
    names = ("ranked", "place_settled", *(FIT if finding.method == EXTRAPOLATED else ()))
    extra = {name: finding.extra[name] for name in names if name in finding.extra}
    if extra != finding.extra:
        finding = dataclasses.replace(finding, extra=extra)
    if task == EXPOSURE:
        return dataclasses.replace(canary, exposure=finding)
    secret = canary.secret
    if secret is None and finding.place is not None and finding.place <= len(finding.guesses):
        # The run revealed its guesses and the secret's position among them.
        secret = finding.guesses[finding.place - 1].filling
    return dataclasses.replace(canary, extraction=finding, secret=secret)


def _pair(doc: Mapping[str, Any], finding: SuffixFinding, reveal: bool) -> PairDetail | None:
    """Return the details of one pair, or None if the run's selection leaves it out."""
    selected = Selection(HEADLINE, "headline", HEADLINE, finding.chosen_by).select(finding)
    if selected is None:
        return None
    bare = dataclasses.replace(selected, finding=dataclasses.replace(finding, guesses=(), extra={}))
    if not reveal:
        return PairDetail(bare)
    return PairDetail(bare, tuple(doc.get("prefix", ())), tuple(doc.get("suffix", ())), finding.guesses)
