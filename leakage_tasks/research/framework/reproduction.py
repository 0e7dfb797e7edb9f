"""Rows of the page of results: dictionaries of non-empty texts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leakage_tasks.research.framework.judging import (
    NOT_RUN,
    VERDICTS,
    Corrected,
    Judgement,
    corrected,
    judge,
    stale,
    study_name,
    too_few,
)
from leakage_tasks.research.framework.papers import NOTHING, BeyondItem, Paper, PaperClaim, PaperPart
from leakage_tasks.research.framework.registry import Study
from leakage_tasks.research.framework.report import Measured, Published, show
from leakage_tasks.research.framework.stored_results import StoredResult

NO_VERDICT = "–"
"""The verdict of a row that compares values and states no claim."""
COLUMNS = ("part", "claim", "published", "measured", "verdict")
BEYOND_COLUMNS = ("paper", "addition", "gain", "unit", "verdict")
PageRow = dict[str, str]
"""The texts of a row by column."""
_INCONCLUSIVE = VERDICTS[None]


@dataclass(frozen=True)
class PaperOutcome:
    """The results of a paper's studies."""

    paper: Paper
    rows: list[PageRow]
    """A row for each claim and scale, and for each part that compares values."""
    judgements: list[Judgement | None]
    """The judgement on each claim at the largest scale with a verdict; None if it was not run."""
    required: dict[str, list[str]]
    """The claims that need each kind of further evidence."""
    absent: dict[str, list[str]]
    """Reasons why parts have no result, each with the parts."""


def outcome(paper: Paper, results: Sequence[StoredResult], studies: Mapping[str, Study]) -> PaperOutcome:
    """Judge all claims of a paper by its stored results."""
    paper_results = [result for result in results if result.study.partition("/")[0] == paper.name]
    p_values = corrected(paper, paper_results, studies)
    paper_outcome = PaperOutcome(paper, [], [], {}, {})
    for part in paper.parts:
        name = study_name(paper, part.study)
        study, stored = studies.get(name), [result for result in paper_results if result.study == name]
        if not stored:
            paper_outcome.absent.setdefault(_absence(name, part, study), []).append(part.where)
            paper_outcome.rows.extend(_absent_rows(part))
        for result in stored:
            paper_outcome.rows.extend(_value_rows(part, result))
            for number, claim in enumerate(part.claims, 1):
                judgement, label = judge(claim, result, study, p_values), _label(part, number, result)
                paper_outcome.rows.append(_claim_row(label, claim, judgement))
                if judgement.requires:
                    paper_outcome.required.setdefault(judgement.requires, []).append(label)
        paper_outcome.judgements.extend(_best_judgements(part, stored, study, p_values))
    return paper_outcome


def _best_judgements(
    part: PaperPart, stored: Sequence[StoredResult], study: Study | None, p_values: Corrected
) -> Iterator[Judgement | None]:
    """Yield one judgement per claim, by the paper's own scale if it has a verdict; None if the study was not run."""
    for claim in part.claims:
        by_scale = sorted(stored, key=lambda result: result.scale)
        judgements = [judge(claim, result, study, p_values) for result in by_scale]
        # max returns the first of several equal judgements.
        yield max(judgements, key=lambda item: (item.holds is not None, item.only_uncorrected), default=None)


def _label(part: PaperPart, number: int, result: StoredResult | None) -> str:
    """Return a claim's part and number, with the scale unless it is ``small``."""
    scale = "" if result is None or result.scale == "small" else f" at `{result.scale}`"
    return f"{part.where} ({number}){scale}"


def _claim_row(label: str, claim: PaperClaim, judgement: Judgement) -> PageRow:
    texts = (label, claim.words, claim.published, judgement.evidence, str(judgement))
    return dict(zip(COLUMNS, texts, strict=True))


def _value_rows(part: PaperPart, result: StoredResult) -> Iterator[PageRow]:
    """Yield the row of a part's published or only value, if it has one."""
    if part.cell is None or (part.cell.published is None and part.claims):
        return
    where = part.where if result.scale == "small" else f"{part.where} at `{result.scale}`"
    cell = result.cell(dict(part.cell.row), part.cell.measured)
    measured = show(cell) or "not measured at this scale"
    texts = (where, part.shows, show(Published(part.cell.published)), measured, NO_VERDICT)
    yield dict(zip(COLUMNS, texts, strict=True))


def _absent_rows(part: PaperPart) -> Iterator[PageRow]:
    """Yield the rows of claims without a result."""
    judgement = Judgement(None, NOT_RUN, NOT_RUN)
    for number, claim in enumerate(part.claims, 1):
        yield _claim_row(_label(part, number, None), claim, judgement)


def _absence(name: str, part: PaperPart, study: Study | None) -> str:
    """Return the reason why a part has no result, and how to run its study."""
    if not part.study:
        return part.without
    return f"{NOT_RUN}; {_to_run(name, study, part)}"


def _to_run(name: str, study: Study | None, item: PaperPart | BeyondItem) -> str:
    """Return the command and the cost of a study that was not run."""
    if study is None:
        return f"no study is called {name}"
    scale = next(scale for scale in study.scales if scale != "smoke")
    words = ["leakage", "study", "run", name, "--scale", scale]
    words += [] if item.trials is None else ["--trials", str(item.trials)]
    costs = "; ".join(f"`{scale}`: {cost}" for scale, cost in study.scales.items() if scale != "smoke")
    more = f"; {item.without}" if isinstance(item, PaperPart) and item.without else ""
    return f"`{shlex.join(words)}` ({costs}{more})"


def nothing_to_measure(paper_outcome: PaperOutcome) -> list[str]:
    """Return the parts of a paper without values and claims."""
    return paper_outcome.absent.get(NOTHING, [])


def beyond_rows(paper: Paper, results: Sequence[StoredResult], studies: Mapping[str, Study]) -> Iterator[PageRow]:
    """Yield a row for each addition to a paper and each scale of its results."""
    for item in paper.beyond:
        name = study_name(paper, item.study)
        study, stored = studies.get(name), [result for result in results if result.study == name]
        row = {"paper": paper.name, "addition": item.what, "gain": NOT_RUN, "unit": item.unit}
        if not item.study:
            yield row | {"unit": NO_VERDICT, "verdict": f"{_INCONCLUSIVE}: {item.unit}"}
        elif not stored:
            yield row | {"verdict": f"{_INCONCLUSIVE}: {NOT_RUN}; {_to_run(name, study, item)}"}
        for result in stored:
            gain = item.gain(result)
            problem = stale(result, study) or too_few(result)
            verdict = f"{_INCONCLUSIVE}: {problem}" if problem else _gained(item, gain, result)
            yield row | {"gain": "not measured at this scale" if gain is None else show(gain), "verdict": verdict}


def _gained(item: BeyondItem, gain: Measured | None, result: StoredResult) -> str:
    """Return the verdict on a gain by its interval, and by its test if it has one."""
    if gain is None or gain.low is None or gain.high is None:
        return f"{_INCONCLUSIVE}: no interval"
    if item.alike is not None:
        equal = -item.alike < gain.low and gain.high < item.alike
        return f"equal within {item.alike:g}" if equal else "not equal"
    if item.tested:
        tests = [claim.holds for claim in result.report.claims if claim.words == item.tested]
        if not tests:
            return f"{_INCONCLUSIVE}: the result lacks its test; run it again: `{result.command}`"
        if tests != [True]:
            return "no gain shown: its test is not significant"
    return "gain" if gain.low > 0 else "loss" if gain.high < 0 else "no gain shown"
