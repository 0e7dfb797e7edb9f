"""Verdicts on the claims of papers, corrected for the number of tests."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakage_tasks.core.version import __version__
from leakage_tasks.research.framework.code_hash import code_of
from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, decide_all
from leakage_tasks.research.framework.papers import Paper, PaperClaim
from leakage_tasks.research.framework.registry import Study
from leakage_tasks.research.framework.report import Claim
from leakage_tasks.research.framework.stored_results import StoredResult
from leakage_tasks.stats.multiple import holm

FEWEST_SEEDS = 3
"""Results with fewer seeds of a setting yield no verdict."""
VERDICTS = {True: "reproduced", False: "refuted", None: "inconclusive"}
NOT_RUN = "not run"
ONLY_UNCORRECTED = "significant only before correction"
_MOST_TESTS = 3
"""Maximum number of tests of a claim whose evidence is shown in full; with more tests, only the weakest is shown."""
_MOST_PARTS = 6
"""Maximum number of parts of an evidence; longer evidence is shortened to its first and last parts."""
_P = re.compile(r"p = [\d.]+(e[+-]?\d+)?")
Corrected = Mapping[tuple[str, str, str], float]
"""Corrected p by study, scale and text of the claim."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on a claim in one stored result."""

    holds: bool | None
    """True: reproduced, False: refuted, None: inconclusive."""
    reason: str = ""
    """The reason for an inconclusive verdict, or a limitation of another verdict."""
    evidence: str = ""
    """The measured values."""
    only_uncorrected: bool = False
    """True if there would be a verdict without the correction for many tests."""
    requires: str = ""
    """For an inconclusive claim: the requirements of a verdict."""

    def __str__(self) -> str:
        return VERDICTS[self.holds] + (f": {self.reason}" if self.reason else "")


def stale(result: StoredResult, study: Study | None) -> str:
    """Return the reason why a stored result does not represent today's code; empty if it does."""
    again = f"run it again: `{result.command}`"
    version = result.versions.get("lm-eval-leakage")
    if version != __version__:
        return f"made by version {version}; {again}"
    if study is None:
        return "its study no longer exists: delete the stored result"
    if set(result.code) - {None, code_of(study.run)}:
        return f"made by edited code; {again}"
    return ""


def too_few(result: StoredResult) -> str:
    """Return the reason why a result has too few seeds for verdicts; empty if it has enough."""
    if result.seeds >= FEWEST_SEEDS:
        return ""
    return f"{result.seeds} of at least {FEWEST_SEEDS} seeds: `{_with_trials(result.command, FEWEST_SEEDS)}`"


def _with_trials(command: str, trials: int) -> str:
    return f"{command.partition(' --trials ')[0]} --trials {trials}"


def corrected(paper: Paper, results: Sequence[StoredResult], studies: Mapping[str, Study]) -> Corrected:
    """Apply Holm's correction to all tests of a paper's claims in usable results, at all scales together."""
    tests: dict[tuple[str, str, str], float] = {}
    for result in results:
        if stale(result, studies.get(result.study)) or too_few(result):
            continue
        paper_claims = [
            claim for part in paper.parts if study_name(paper, part.study) == result.study for claim in part.claims
        ]
        for claim in result.report.claims:
            if claim.p is not None and any(paper_claim.is_tested_by(claim.words) for paper_claim in paper_claims):
                tests[result.study, result.scale, claim.words] = claim.p
    return dict(zip(tests, holm(list(tests.values())), strict=True))


def study_name(paper: Paper, study: str) -> str:
    """Return the full name of one of a paper's studies."""
    return f"{paper.name}/{study}"


def judge(paper_claim: PaperClaim, result: StoredResult, study: Study | None, p_values: Corrected) -> Judgement:
    """Judge a paper's claim by a stored result: all its tests must hold, and their p must stay low when corrected."""
    claims = [claim for claim in result.report.claims if paper_claim.is_tested_by(claim.words)]
    if not claims:
        return Judgement(None, f"the result lacks its test; run it again: `{result.command}`", "not tested")
    known = [p_values.get((result.study, result.scale, claim.words)) for claim in claims]
    verdicts = [_survives(claim, p) for claim, p in zip(claims, known, strict=True)]
    names = [claim.words.removeprefix(paper_claim.test("")) for claim in claims]
    evidence = _all_evidence(
        names, [_evidence(claim, p) for claim, p in zip(claims, known, strict=True)], known, verdicts
    )
    if problem := stale(result, study) or too_few(result):
        return Judgement(None, problem, evidence)
    if (holds := decide_all(verdicts)) is not None:
        return Judgement(holds, paper_claim.caveat if result.scale == "small" else "", evidence)
    undecided = [claim for claim, verdict in zip(claims, verdicts, strict=True) if verdict is None]
    only_uncorrected = decide_all([_survives(claim, claim.p) for claim in claims]) is not None
    requires = "; ".join(claim.takes for claim in undecided if claim.takes) or paper_claim.takes
    requires = requires or f"more runs (`--trials {2 * max(result.seeds, FEWEST_SEEDS)}`)"
    return Judgement(None, ONLY_UNCORRECTED if only_uncorrected else "", evidence, only_uncorrected, requires)


def _survives(claim: Claim, p: float | None) -> bool | None:
    """Return the claim's verdict if its test is significant at ``p``, else None."""
    return claim.holds if claim.p is None or (p is not None and p <= SIGNIFICANCE) else None


def _all_evidence(
    names: Sequence[str], lines: Sequence[str], p_values: Sequence[float | None], verdicts: Sequence[bool | None]
) -> str:
    """Return a line of evidence per test; with many tests, their number and the weakest test."""
    if len(lines) == 1:
        return lines[0]
    named = [f"{name}: {line}" for name, line in zip(names, lines, strict=True)]
    if len(lines) <= _MOST_TESTS:
        return "\n".join(named)
    order = {False: 0, None: 1, True: 2}
    weakest = min(range(len(lines)), key=lambda index: (order[verdicts[index]], -(p_values[index] or 0.0)))
    return f"{verdicts.count(True)} of {len(lines)} tests hold; the weakest: {named[weakest]}"


def _evidence(claim: Claim, p: float | None) -> str:
    """Return the evidence with the corrected p in place of the test's own."""
    parts = claim.evidence.split("; ")
    evidence = claim.evidence or "no values"
    if len(parts) > _MOST_PARTS:
        evidence = "; ".join([parts[0], "…", parts[-1]])
    if p is None:
        return evidence
    shown = "p ≤ 0.0001" if p <= 1e-4 else f"p = {p:.2g}"
    return _P.sub(shown, evidence) if _P.search(evidence) else f"{evidence}; {shown}"
