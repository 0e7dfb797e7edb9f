from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.task_names import TEXTS
from leakage_tasks.report.load.texts import TextDetail
from leakage_tasks.report.plots.runs import draw_runs, run_curves, runs_of
from leakage_tasks.stats.intervals import clopper_pearson
from tests.conftest import Leakage, Refused
from tests.report.logged import finding, log, text

LENGTHS = st.lists(st.one_of(st.just(0), st.integers(20, 80)), min_size=1, max_size=12)


@given(lengths=LENGTHS)
def test_each_share_counts_the_texts_with_a_run_as_long(lengths: list[int]):
    texts = [TextDetail(str(number), "group", 20, length, None) for number, length in enumerate(lengths)]
    (curve,) = run_curves(texts)
    assert (curve.name, curve.count) == ("group, corpus", len(lengths))
    assert [share.length for share in curve.shares] == sorted({20, *filter(None, lengths), max(20, *lengths) + 1})
    for share in curve.shares:
        hits = len([length for length in lengths if length >= share.length])
        assert share[1:] == (hits / len(lengths), *clopper_pearson(hits, len(lengths)))
    assert curve.shares[-1].value == 0


def test_every_group_has_a_line_for_corpus_and_controls(tmp_path: Path):
    findings = [text("empty", 0, 30, 0), text("ordinary", 0, 0, 0), text("prefix", 0, None, 25, unseen=True)]
    curves = runs_of([log(tmp_path / "a", {TEXTS: findings})])
    assert [curve.name for curve in curves] == [
        "untargeted prompts, corpus",
        "untargeted prompts, controls",
        "ordinary prompts, corpus",
        "ordinary prompts, controls",
        "prefix prompts from controls, controls",
    ]
    figure = draw_runs(curves)
    (legend,) = figure.legends
    assert [entry.get_text() for entry in legend.get_texts()] == [f"{curve.name} (n = 1)" for curve in curves]
    heights = [line.get_ydata()[0] for line in figure.axes[0].lines]
    assert heights == [1.0, 0.0, 0.0, 0.0, 1.0]


def test_several_runs_have_their_names(tmp_path: Path):
    paths = [log(tmp_path / name, {TEXTS: [text("empty", 0, 30, None)]}) for name in ("a", "b")]
    assert [curve.name for curve in runs_of(paths)] == [
        "a: untargeted prompts, corpus",
        "b: untargeted prompts, corpus",
    ]
    with pytest.raises(OptionError, match="13 lines are too many to distinguish"):
        draw_runs(runs_of(paths[:1]) * 13)


def test_the_command_draws(tmp_path: Path, leakage: Leakage):
    path = log(tmp_path / "a", {TEXTS: [text("empty", 0, 30)]})
    code, out, _ = leakage("plot", "runs", path, "-o", tmp_path / "runs.svg")
    assert (code, out) == (0, f"wrote {tmp_path / 'runs.svg'}\n")
    assert "share of texts" in (tmp_path / "runs.svg").read_text()


def test_runs_without_texts_are_an_error(tmp_path: Path, refused: Refused):
    path = log(tmp_path / "a", {"canary_exposure": [finding("a")]})
    err = refused("plot", "runs", path, "-o", tmp_path / "runs.svg")
    assert "nothing to draw: no samples of untargeted_extraction: run lm_eval --tasks untargeted_extraction" in err
