"""What came of a paper's claims: reproduced, refuted or not to be told, corrected for the number of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from leakage_tasks.core.version import __version__
from leakage_tasks.research.framework.code_hash import code_of
from leakage_tasks.research.framework.group_tests import LEAST_P, all_told
from leakage_tasks.research.framework.papers import Paper, PaperClaim
from leakage_tasks.research.framework.registry import Study
from leakage_tasks.research.framework.report import Claim
from leakage_tasks.research.framework.stored_results import StoredResult
from leakage_tasks.stats.multiple import holm

FEWEST_SEEDS = 3
"""Fewer seeds of a setting bear no verdict."""
VERDICTS = {True: "reproduced", False: "refuted", None: "cannot be told"}
NOT_RUN = "not run"
Corrected = Mapping[tuple[str, str, str], float]
"""Corrected p by study, scale and words of the claim."""


@dataclass(frozen=True)
class Judgement:
    """What came of a claim or a part in one stored result, or without one."""

    holds: bool | None
    """Whether it is reproduced (True), refuted (False) or neither can be told."""
    why: str = ""
    """Of what cannot be told: why, and what it would take; else what the verdict rests on, if that has to be said."""
    evidence: str = ""
    """The figures."""
    before: bool = False
    """Whether it would be told but for the correction."""

    def __str__(self) -> str:
        return VERDICTS[self.holds] + (f": {self.why}" if self.why else "")


def stale(result: StoredResult, study: Study | None) -> str:
    """Why a stored result does not speak for today's code; empty where it does."""
    again = f"run it again: `{result.command}`"
    made = result.versions.get("lm-eval-leakage")
    if made != __version__:
        return f"made by version {made}; {again}"
    if study is None:
        return "its study is gone: take the result out of the store"
    if set(result.code) - {None, code_of(study.run)}:
        return f"made by edited code; {again}"
    return ""


def too_few(result: StoredResult) -> str:
    """Why its trials bear no verdict; empty where they do."""
    if result.seeds >= FEWEST_SEEDS:
        return ""
    return f"{result.seeds} of at least {FEWEST_SEEDS} seeds: `{_with_trials(result.command, FEWEST_SEEDS)}`"


def _with_trials(command: str, trials: int) -> str:
    return f"{command.partition(' --trials ')[0]} --trials {trials}"


def corrected(paper: Paper, results: Sequence[StoredResult], studies: Mapping[str, Study]) -> Corrected:
    """Holm's correction over all tests of a paper's claims that usable results hold, at all scales together."""
    tests: dict[tuple[str, str, str], float] = {}
    for result in results:
        if stale(result, studies.get(result.study)) or too_few(result):
            continue
        said = [each for part in paper.parts if study_name(paper, part.study) == result.study for each in part.claims]
        for claim in result.report.claims:
            if claim.p is not None and any(_meant(claim, each) for each in said):
                tests[result.study, result.scale, claim.words] = claim.p
    return dict(zip(tests, holm(list(tests.values())), strict=True))


def study_name(paper: Paper, study: str) -> str:
    """The full name of one of a paper's studies."""
    return f"{paper.name}/{study}"


def _meant(claim: Claim, said: PaperClaim) -> bool:
    return any(fnmatchcase(claim.words, pattern) for pattern in said.tested)


def judge(said: PaperClaim, result: StoredResult, study: Study | None, p_values: Corrected) -> Judgement:
    """What a stored result says of a claim: every tested sentence must hold, and its test bear the correction."""
    found = [claim for claim in result.report.claims if _meant(claim, said)]
    if not said.tested:
        return Judgement(None, "no test of it in the study", "not tested")
    if not found:
        return Judgement(None, f"the result lacks its test; run it again: `{result.command}`", "not tested")
    known = {claim.words: p_values.get((result.study, result.scale, claim.words)) for claim in found}
    named = {claim.words: f"{claim.words}: " if len(found) > 1 else "" for claim in found}
    evidence = "\n".join(named[claim.words] + _evidence(claim, known[claim.words]) for claim in found)
    if problem := stale(result, study) or too_few(result):
        return Judgement(None, problem, evidence)
    verdicts = [_survives(claim, known[claim.words]) for claim in found]
    if (holds := all_told(verdicts)) is not None:
        return Judgement(holds, said.caveat if result.scale == "small" else "", evidence)
    untold = [claim for claim, verdict in zip(found, verdicts, strict=True) if verdict is None]
    before = all_told([_survives(claim, claim.p) for claim in found]) is not None
    return Judgement(None, _missing(said, untold, before, result), evidence, before)


def _survives(claim: Claim, p: float | None) -> bool | None:
    """The claim's verdict at ``p``; None where its test does not bear it."""
    return claim.holds if claim.p is None or (p is not None and p <= LEAST_P) else None


def _evidence(claim: Claim, p: float | None) -> str:
    if p is None:
        return claim.evidence or "no figures"
    shown = "" if "p = " in claim.evidence else f"; p = {claim.p:.2g}"
    return f"{claim.evidence}{shown}, {p:.2g} corrected"


def _missing(said: PaperClaim, untold: Sequence[Claim], before: bool, result: StoredResult) -> str:
    """What a verdict would take."""
    if takes := [claim.takes for claim in untold if claim.takes]:
        return "; ".join(takes)
    why = "told only before the correction" if before else "the runs do not tell"
    more = said.takes or f"more may: `--trials {2 * max(result.seeds, FEWEST_SEEDS)}`"
    return f"{why}; {more}"


def judge_part(claims: Sequence[Judgement]) -> Judgement:
    """What came of a table: as its claims did, refuted with one; it says how many where they differ."""
    if not claims:
        return Judgement(None, "the paper claims nothing of it")
    holds = all_told([each.holds for each in claims])
    counts = [sum(each.holds is verdict for each in claims) for verdict in VERDICTS]
    told = ", ".join(f"{count} {word}" for count, word in zip(counts, VERDICTS.values(), strict=True) if count)
    return Judgement(holds, f"of {len(claims)} claims {told}" if max(counts) < len(claims) else "")
