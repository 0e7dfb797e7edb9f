"""An exposure read off a fitted distribution is called neither exact nor a lower bound, wherever it is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from leakage_tasks.core.errors import ResultsError
from leakage_tasks.report.board.formats import as_text
from leakage_tasks.report.load.findings import read_details
from leakage_tasks.report.load.results import read_runs
from leakage_tasks.report.page import page
from leakage_tasks.report.page.runs import describe_canary
from leakage_tasks.report.plots.exposure import draw_epochs
from leakage_tasks.report.plots.findings import epochs_of, repetitions_of
from leakage_tasks.report.plots.repetitions import by_repetitions, draw_repetitions
from leakage_tasks.report.score import score_file
from tests.conftest import Leakage
from tests.report.made import STAMP
from tests.report.pages import board, canary, write_run

BITS = 35.0
"""More than the 19.9 that the space of the made canaries has."""


def fitted(rejected: bool) -> dict[str, object]:
    return {"extrapolated": BITS, "ks": 0.02, "p_value": 0.01 if rejected else 0.4, "rejected": rejected, "draws": 2000}


def extrapolated(name: str, repetitions: int, **changed: object):
    doc, ranked, searched = canary(name, rank=1, repetitions=repetitions)
    extra = {**fitted(rejected=repetitions == 1), **changed}
    return doc, replace(ranked, attack="skew-normal", method="extrapolated", extra=extra), searched


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two planted canaries, the fit of one of them rejected, and a control."""
    write_run(tmp_path, "one", [extrapolated("a", 1), extrapolated("b", 2), extrapolated("c", 0, extrapolated=1.0)])
    return tmp_path


def test_a_limit_that_it_keeps_to_is_no_pass(leakage: Leakage, run: Path):
    code, out, _ = leakage("check", run, "--max-exposure", 40)
    assert code == 1
    assert "exposure_max 35.0 ≤ 40.0 (has no interval), which may be too low: exposure is extrapolated from" in out


def test_the_leaderboard_flags_it_with_the_share_of_fits_that_hold(run: Path):
    text = " ".join(as_text(board(run), width=200).split())
    assert "exposure is extrapolated from a fitted distribution" in text
    assert "(fit_not_rejected = 0.500)" in text
    assert "lower bound" not in text
    assert "only a lower bound" not in text


def test_the_page_flags_it(run: Path):
    assert "exposure is extrapolated from a fitted distribution" in page(board(run))


def test_a_canary_is_told_with_its_fit(run: Path):
    (made,) = read_runs([run])
    first, second, _ = (describe_canary(each) for each in read_details(made).canaries)
    facts = dict(map(tuple, first["facts"]))
    assert first["head"][2] == facts["Exposure"] == "35.0 bits, extrapolated; the space has 19.9"
    assert facts["Skew-normal fit"].startswith("rejected: do not trust the exposure (Kolmogorov-Smirnov 0.020")
    assert facts["Rank"].endswith("extrapolated from a fitted distribution")
    assert dict(map(tuple, second["facts"]))["Skew-normal fit"].startswith("not rejected; its tail is untested")


def test_it_is_no_bound_among_the_spreads(run: Path):
    (made,) = read_runs([run])
    details = read_details(made).canaries
    found = by_repetitions("one", [each.exposure for each in details if each.exposure], []).exposures
    assert [point.bound for point in found] == [False] * 3
    assert max(point.exposure for point in found) == BITS


def test_scores_and_audit_take_it_for_no_exact_rank(run: Path):
    scored = score_file(run / "run-0" / f"samples_canary_exposure_{STAMP}.jsonl")
    assert scored.scores["none"]["exposure"] == BITS
    assert scored.scores["none"]["fit_not_rejected"] == 0.5
    assert "share_with_interval" not in scored.scores["none"]
    (secret,) = (each for each in scored.audit if each.name == "epsilon_secret")
    assert "needs an exact rank" in str(secret.refused)


@pytest.mark.parametrize(
    "draw", [lambda path: draw_repetitions(repetitions_of([path])), lambda path: draw_epochs(epochs_of([path]))]
)
def test_plots_reach_beyond_what_the_space_has(run: Path, draw: Callable):
    axes = draw(run).axes[0]
    assert axes.get_ylim()[1] > BITS


@pytest.mark.parametrize(
    ("name", "was", "now"),
    [("ks", "0.02", '"<b>"'), ("rejected", "true", "1"), ("extrapolated", "35.0", "null"), ("p_value", "0.01", "-1")],
)
def test_a_damaged_fit_is_one_line_that_names_the_file(run: Path, name: str, was: str, now: str):
    samples = run / "run-0" / f"samples_canary_exposure_{STAMP}.jsonl"
    whole = samples.read_text(encoding="utf-8")
    damaged = whole.replace(f'\\"{name}\\": {was}', f'\\"{name}\\": {json.dumps(now)[1:-1]}')
    assert damaged != whole
    samples.write_text(damaged, encoding="utf-8")
    (made,) = read_runs([run])
    with pytest.raises(ResultsError, match="samples_canary_exposure.*no finding of canary_exposure"):
        read_details(made)
