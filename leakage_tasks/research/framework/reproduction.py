"""Rows of the page that says what came of the papers: a dictionary of texts each, none of them empty."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from leakage_tasks.research.framework.judging import (
    NOT_RUN,
    Corrected,
    Judgement,
    corrected,
    judge,
    judge_part,
    stale,
    study_name,
    too_few,
)
from leakage_tasks.research.framework.papers import NOTHING, BeyondItem, Paper, PaperPart
from leakage_tasks.research.framework.registry import Study
from leakage_tasks.research.framework.report import Measured, Published, show
from leakage_tasks.research.framework.stored_results import StoredResult

NONE = "none"
CLAIM = ", claim "
"""Stands between a part and the number of one of its claims."""
HOW = ("scale", "verdict", "command", "minutes", "ran on", "made by")
COLUMNS = ("part", "what it shows or says", "published", "measured")
BEYOND_COLUMNS = ("paper", "what is added", "gain", "counted in")
PageRow = dict[str, str]
"""A row's texts by column: its own columns, then those of :data:`HOW`."""


@dataclass(frozen=True)
class PaperOutcome:
    """What came of a paper."""

    paper: Paper
    rows: list[PageRow]
    """A row for each part and scale, then one for each of its claims."""
    judgements: list[Judgement | None]
    """Of every claim, at the largest scale that tells; None where it was not run."""
    differences: dict[str, list[str]]
    """How the set-ups differ from the paper's, a sentence each, with the parts of which that is so, at ``small`` where
    no scale is named."""


def outcome(paper: Paper, results: Sequence[StoredResult], studies: Mapping[str, Study]) -> PaperOutcome:
    """What the stored results say of a paper."""
    own = [result for result in results if result.study.partition("/")[0] == paper.name]
    p_values = corrected(paper, own, studies)
    rows, judgements, differences = list[PageRow](), list[Judgement | None](), dict[str, list[str]]()
    for part in paper.parts:
        name = study_name(paper, part.study)
        study, stored = studies.get(name), [result for result in own if result.study == name]
        for result in stored:
            rows += _stored_rows(part, result, study, p_values)
            for sentence in filter(None, (*result.report.differences, part.lacks)):
                differences.setdefault(sentence, []).append(_at(part, result))
        if not stored:
            rows += _absent_rows(paper, part, study)
        judgements += _best_judgements(part, stored, study, p_values)
    return PaperOutcome(paper, rows, judgements, differences)


def _best_judgements(
    part: PaperPart, stored: Sequence[StoredResult], study: Study | None, p_values: Corrected
) -> Iterator[Judgement | None]:
    """One a claim: the paper's own scale before smaller ones, where it tells; None where it was not run."""
    for said in part.claims:
        judged = [judge(said, result, study, p_values) for result in sorted(stored, key=lambda each: each.scale)]
        # max gives the first of equals.
        yield max(judged, key=lambda each: (each.holds is not None, each.before), default=None)


def _stored_rows(part: PaperPart, result: StoredResult, study: Study | None, p_values: Corrected) -> Iterator[PageRow]:
    """The part's row, then one for each claim."""
    judged = [judge(said, result, study, p_values) for said in part.claims]
    problem = stale(result, study) or too_few(result)
    whole = Judgement(None, problem) if problem else judge_part(judged)
    yield _row(part.where, part.shows, _published(part), _measured(part, result), result, whole)
    for number, (said, judgement) in enumerate(zip(part.claims, judged, strict=True), 1):
        where = f"{part.where}{CLAIM}{number}"
        yield _row(where, said.words, said.published, judgement.evidence, result, judgement)


def _at(part: PaperPart, result: StoredResult) -> str:
    return part.where if result.scale == "small" else f"{part.where} at `{result.scale}`"


def _published(part: PaperPart) -> str:
    """The published figure that stands for the part."""
    return show(Published(part.cell.published if part.cell else None))


def _measured(part: PaperPart, result: StoredResult) -> str:
    """The measured one."""
    if part.cell is None:
        return "its claims' figures, below"
    found = result.cell(dict(part.cell.row), part.cell.measured)
    return show(found) or "not measured at this scale"


def _row(where: str, words: str, published: str, measured: str, result: StoredResult, judged: Judgement) -> PageRow:
    first = dict(zip(COLUMNS, (where, words, published, measured), strict=False))
    return first | _how(result, str(judged))


def _how(result: StoredResult, verdict: str) -> PageRow:
    devices = ", ".join(device or "not noted" for device in result.devices)
    code = ", ".join(code or "not noted" for code in result.code)
    made = f"{result.versions.get('lm-eval-leakage', 'not noted')}, code {code}"
    minutes = f"{result.seconds / 60:,.0f}" if result.seconds >= 60 else "under 1"
    return dict(zip(HOW, (result.scale, verdict, f"`{result.command}`", minutes, devices, made), strict=True))


def _absent_rows(paper: Paper, part: PaperPart, study: Study | None) -> Iterator[PageRow]:
    """The same rows without a result: what it would take."""
    rest = _no_study(part) if not part.study else _to_run(study_name(paper, part.study), study, part)
    figures = (NONE, NONE) if part.without == NOTHING else (_published(part), NOT_RUN)
    yield dict(zip(COLUMNS, (part.where, part.shows, *figures), strict=False)) | rest
    for number, said in enumerate(part.claims, 1):
        where = f"{part.where}{CLAIM}{number}"
        yield (
            dict(zip(COLUMNS, (where, said.words, said.published, NOT_RUN), strict=False))
            | rest
            | {"verdict": f"cannot be told: {NOT_RUN}, see the row of {part.where}"}
        )


def _no_study(part: PaperPart) -> PageRow:
    verdict = part.without if part.without == NOTHING else f"cannot be told: {part.without}"
    return dict.fromkeys(HOW, NONE) | {"verdict": verdict}


def _to_run(name: str, study: Study | None, part: PaperPart | BeyondItem) -> PageRow:
    """What a study would take that was not run."""
    if study is None:
        return dict.fromkeys(HOW, NONE) | {"verdict": f"cannot be told: no study is called {name}"}
    scale = next(each for each in study.scales if each != "smoke")
    words = ["leakage", "study", "run", name, "--scale", scale]
    words += [] if part.trials is None else ["--trials", str(part.trials)]
    takes = "; ".join(f"`{each}` takes {what}" for each, what in study.scales.items() if each != "smoke")
    more = f"; {part.without}" if isinstance(part, PaperPart) and part.without else ""
    verdict = f"cannot be told: {NOT_RUN}; {takes}{more}"
    return dict.fromkeys(HOW, NOT_RUN) | {"verdict": verdict, "command": f"`{shlex.join(words)}`"}


def beyond_rows(paper: Paper, results: Sequence[StoredResult], studies: Mapping[str, Study]) -> Iterator[PageRow]:
    """A row for each addition to a paper and scale."""
    for item in paper.beyond:
        name = study_name(paper, item.study)
        first = {"paper": paper.name, "what is added": item.what, "gain": NOT_RUN, "counted in": item.unit}
        stored = [result for result in results if result.study == name]
        if not item.study:
            yield (
                first
                | dict.fromkeys(HOW, NONE)
                | {"gain": NONE, "counted in": NONE}
                | {"verdict": f"cannot be told: {item.unit}"}
            )
        elif not stored:
            yield first | _to_run(name, studies.get(name), item)
        for result in stored:
            gain = item.gain(result)
            problem = stale(result, studies.get(name)) or too_few(result)
            verdict = f"cannot be told: {problem}" if problem else _gained(item, gain, result)
            yield first | {"gain": "not measured at this scale" if gain is None else show(gain)} | _how(result, verdict)


def _gained(item: BeyondItem, gain: Measured | None, result: StoredResult) -> str:
    if gain is None or gain.low is None or gain.high is None:
        return "cannot be told: no interval"
    if item.alike is not None:
        return f"alike, to within {item.alike:g}" if -item.alike < gain.low and gain.high < item.alike else "not alike"
    if item.tested:
        tests = [claim.holds for claim in result.report.claims if claim.words == item.tested]
        if not tests:
            return f"cannot be told: the result lacks its test; run it again: `{result.command}`"
        if tests != [True]:
            return "no gain shown: its test in the study does not tell"
    return "a gain" if gain.low > 0 else "a loss" if gain.high < 0 else "no gain shown"
