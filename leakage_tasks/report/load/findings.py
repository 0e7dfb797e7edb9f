"""What a run's samples say about each canary and each pair: the findings of all its tasks, gathered by document.

Whatever may show a secret of kind ``natural`` is dropped here, before anything is made of it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
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
from leakage_tasks.core.errors import ResultsError
from leakage_tasks.core.inputs import check_file
from leakage_tasks.core.jsonl import LineError, read_json_lines
from leakage_tasks.core.null_results import reason_of
from leakage_tasks.metrics.extraction import within_ten
from leakage_tasks.report.load.run import Run

EXPOSURE, EXTRACTION, SUFFIXES = "canary_exposure", "canary_extraction", "suffix_extraction"
"""The tasks whose samples are read."""
Found = TypeVar("Found", Finding, SuffixFinding)


@dataclass(frozen=True)
class CanaryDetail:
    """One canary and what each task found out about it.

    What may show a natural secret is None or coarse, unless the run was told to reveal it and so is the report.
    """

    id: str
    """Its id in the manifest."""
    planted: bool
    """False for a control."""
    repetitions: int
    """How often it was planted."""
    kind: str
    """``random``, ``organic`` or ``natural``."""
    template: str | None = None
    """The text around the secret."""
    secret: tuple[str, ...] | None = None
    """What fills the slots."""
    label: str | None = None
    """The class or tags that it was planted with."""
    exposure: Finding | None = None
    """What the search for its rank found."""
    extraction: Finding | None = None
    """What the search for the secret found."""

    @property
    def bits(self) -> float | None:
        """Its exposure."""
        return None if self.exposure is None else self.exposure.exposure

    @property
    def extracted(self) -> bool | None:
        """Whether the best guess is the secret; None where nobody guessed."""
        found = self.extraction
        return None if found is None or found.correct is None else all(found.correct)

    @property
    def guessed(self) -> Finding | None:
        """The finding whose guesses tell most: the extraction's, else those that the search for the rank came by."""
        if self.extraction is not None:
            return self.extraction
        return self.exposure if self.exposure is not None and self.exposure.correct is not None else None

    @property
    def within_ten(self) -> bool | None:
        """Whether a natural secret is among the ten first guesses, where that is all that is told."""
        found = self.extraction
        told = None if found is None or not found.coarse else within_ten(found)
        return None if told is None else bool(told)

    def right(self, place: int) -> tuple[bool, ...] | None:
        """Which slots of guess ``place`` (from 0) are right; None where that cannot be told."""
        found = self.guessed
        if found is None:
            return None
        if self.secret is not None and place < len(found.guesses):
            filling = found.guesses[place].filling
            if len(filling) == len(self.secret):
                return tuple(left == true for left, true in zip(filling, self.secret, strict=True))
        return found.correct if place == 0 else None


@dataclass(frozen=True)
class PairDetail:
    """One pair of prefix and suffix as the run's own settings read it; tokens only where they are to be shown."""

    selected: SelectedView
    prefix: tuple[int, ...] = ()
    suffix: tuple[int, ...] = ()
    guesses: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Details:
    """What is known of one run's documents; ``left_out`` counts pairs that could not be asked about.

    ``missing`` says, by task, why there is nothing of it.
    """

    canaries: tuple[CanaryDetail, ...] = ()
    pairs: tuple[PairDetail, ...] = ()
    left_out: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)


def read_details(run: Run, *, reveal: bool = False) -> Details:
    """What the samples beside a run's results hold. Raises ResultsError naming file and line.

    ``reveal`` keeps what may show natural secrets and training text, as far as the run logged it.
    """
    missing: dict[str, str] = {}
    canaries: dict[tuple[str, str], CanaryDetail] = {}
    for task in (EXPOSURE, EXTRACTION):
        for doc, found in _findings(run, task, finding_from_json, missing):
            # Tasks of one run may have had manifests of their own, with the same ids in them.
            key = found.manifest, found.canary
            canaries[key] = _with(canaries.get(key) or _canary(found, doc, reveal), task, found, reveal)
    suffixes = _findings(run, SUFFIXES, suffix_finding_from_json, missing)
    pairs = [_pair(doc, found, reveal) for doc, found in suffixes if not found.control]
    kept = tuple(pair for pair in pairs if pair is not None)
    return Details(tuple(canaries.values()), kept, len(pairs) - len(kept), missing)


def _findings(
    run: Run, task: str, read: Callable[[str], Found], missing: dict[str, str]
) -> Iterator[tuple[Mapping[str, Any], Found]]:
    """The documents of a task's headline column, each with what was found; says in ``missing`` why there are none."""
    result = run.scored_as(task)
    if result is None:
        return
    if result.logged is None:
        missing[task] = "no samples beside its results: run lm_eval again with --log_samples and --output_path"
        return
    for number, row in _rows(result.logged, task):
        try:
            doc, answer = row.get("doc") or {}, row["resps"][0][0]
            if row.get("filter", HEADLINE) != HEADLINE:
                continue
            if (reason := reason_of(answer)) is not None:
                missing[task] = f"not answered: {reason}"
                return
            found = read(answer)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _no_finding(result.logged, number, task) from None
        yield doc, found


def _no_finding(path: Path, number: int, task: str) -> ResultsError:
    return ResultsError(
        f"{path}:{number}: holds no finding of {task}: give the file as lm_eval wrote it, or move it away to go without"
    )


def _rows(path: Path, task: str) -> Iterator[tuple[int, Any]]:
    """The samples in a file, with their line's number from 1."""
    try:
        check_file(path)
        with path.open(encoding="utf-8") as lines:
            yield from read_json_lines(lines)
    except LineError as bad:
        raise _no_finding(path, bad.number, task) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ResultsError(f"{path}: cannot be read ({reason}): give the file as lm_eval wrote it") from None


def _canary(found: Finding, doc: Mapping[str, Any], reveal: bool) -> CanaryDetail:
    known = found.canary, found.planted, found.repetitions
    if not reveal and NATURAL in (found.kind, doc.get("kind")):
        return CanaryDetail(*known, NATURAL)
    secret = doc.get("secret")
    shown = None if secret is None else tuple(map(str, secret))
    return CanaryDetail(*known, found.kind, template=doc.get("template"), secret=shown, label=doc.get("label"))


def _with(canary: CanaryDetail, task: str, found: Finding, reveal: bool) -> CanaryDetail:
    # A run may have been told to reveal what this report is not: either word of a secret's kind hides it.
    if not reveal and NATURAL in (canary.kind, found.kind):
        found = coarsened(dataclasses.replace(found, kind=NATURAL))
        known = None if canary.exposure is None else coarsened(dataclasses.replace(canary.exposure, kind=NATURAL))
        canary = dataclasses.replace(canary, kind=NATURAL, template=None, secret=None, label=None, exposure=known)
    names = (*FIT, "ranked") if found.method == EXTRAPOLATED else ("ranked",)
    kept = {name: found.extra[name] for name in names if name in found.extra}
    if kept != found.extra:
        found = dataclasses.replace(found, extra=kept)
    if task == EXPOSURE:
        return dataclasses.replace(canary, exposure=found)
    secret = canary.secret
    if secret is None and found.place is not None and found.place <= len(found.guesses):
        # The run revealed its guesses, and says which of them is the secret.
        secret = found.guesses[found.place - 1].filling
    return dataclasses.replace(canary, extraction=found, secret=secret)


def _pair(doc: Mapping[str, Any], found: SuffixFinding, reveal: bool) -> PairDetail | None:
    """One pair; None where it was left out."""
    selected = Selection(HEADLINE, "headline", HEADLINE, found.chosen_by).select(found)
    if selected is None:
        return None
    bare = dataclasses.replace(selected, finding=dataclasses.replace(found, guesses=(), extra={}))
    if not reveal:
        return PairDetail(bare)
    return PairDetail(bare, tuple(doc.get("prefix", ())), tuple(doc.get("suffix", ())), found.guesses)
