"""Recall against wrong guesses allowed: the curve is the metric at every number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.aggregates import Guessed, early_stop
from leakage_tasks.report.plots.recall import RecallCurve, draw_recall, recall_curve

# Few values each, so that there are ties to break.
guesses = st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 2.0])), min_size=1)


def guessed(rows) -> list[Guessed]:
    return [Guessed(right, confidence, bits, pair) for pair, (right, confidence, bits) in enumerate(rows)]


@given(guesses)
def test_the_curve_is_recall_early_stop_at_every_number_and_ends_at_recall(rows):
    found = guessed(rows)
    curve = recall_curve(found)
    assert curve == [early_stop(wrong)(found) for wrong in range(1, len(curve) + 1)]
    assert curve[-1] == sum(each.right for each in found) / len(found) == early_stop(len(found) + 1)(found)
    assert len(curve) == 1 + sum(not each.right for each in found)


def test_no_guesses_have_no_curve():
    assert recall_curve([]) == []


ROWS = [(n % 3 > 0, 1.0 - n / 100, 1.0) for n in range(60)]


@pytest.mark.parametrize("wrong", [None, 1, 12, 21, 500])
def test_the_mark_is_on_the_curve(wrong):
    axes = draw_recall([RecallCurve("run", guessed(ROWS), wrong)]).axes[0]
    curve, mark = axes.lines[:2]
    ((place, value),) = mark.get_xydata().tolist()
    assert place == (wrong or 6)
    assert value == early_stop(wrong)(guessed(ROWS))
    assert [place, value] in curve.get_xydata().tolist()
    assert curve.get_ydata()[-1] == pytest.approx(2 / 3)


def test_the_legend_tells_the_figure_with_its_interval_and_count():
    (text,) = draw_recall([RecallCurve("run", guessed(ROWS), 3)]).legends[0].get_texts()
    assert text.get_text().startswith("run: 0.067 (95 % interval ")
    assert text.get_text().endswith(" at 3; 0.667 of 60 pairs at the end")


def test_lines_differ_in_colour_and_style_and_mark():
    lines = draw_recall([RecallCurve(str(n), guessed(ROWS)) for n in range(5)]).axes[0].lines[:10]
    curves, marks = lines[::2], lines[1::2]
    assert len({line.get_color() for line in curves}) == 5
    assert len({str(line._dash_pattern) for line in curves}) == 5
    assert len({line.get_marker() for line in marks}) == 5


def test_a_line_without_guesses_is_left_out_and_none_at_all_refused():
    assert len(draw_recall([RecallCurve("a", []), RecallCurve("b", guessed(ROWS))]).legends[0].get_texts()) == 1
    with pytest.raises(OptionError, match="no guesses to draw: all pairs were left out"):
        draw_recall([RecallCurve("a", [])])


def test_more_lines_than_can_be_told_apart_are_refused():
    with pytest.raises(OptionError, match="13 lines are too many to distinguish: give 12 runs or fewer"):
        draw_recall([RecallCurve("a", guessed(ROWS))] * 13)
