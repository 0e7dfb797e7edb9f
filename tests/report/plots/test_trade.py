"""Usefulness against leakage: marks at their values, the border of the front, and names that cover nothing."""

from __future__ import annotations

import base64
import itertools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from matplotlib.cbook import STEP_LOOKUP_MAP
from matplotlib.collections import LineCollection

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.board import Column
from leakage_tasks.report.board.front import LARGEST, ON_FRONT, UNRANKED, Trade, TradePoint, pareto_front
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.plots.style import data_uri
from leakage_tasks.report.plots.trade import draw_trade

FINITE = st.floats(-LARGEST, LARGEST, exclude_min=True, exclude_max=True)


def column(title: str, direction: str | None, leakage: bool) -> Column:
    names = {"name": title, "title": title, "description": "", "unit": "bits"}
    return Column(**names, direction=direction, task="t", filter="none", leakage=leakage, shown=True)


ACROSS, UP = column("acc", "higher", False), column("exposure", "lower", True)


def point(name: str, x: float, y: float, standing: str = ON_FRONT, *, reach: float = 0.5) -> TradePoint:
    return TradePoint(name, "hf", Figure(x), Figure(y, y - reach, y + reach), standing)


def drawn(*points: TradePoint):
    return draw_trade(Trade(1, ACROSS, UP, points, ("hf",), 0))


POINTS = [point("a", 0.9, 3.0), point("b", 0.5, 1.0), point("c", 0.4, 2.0, "dominated by b")]


def lines(axes, style: str) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_linestyle() == style]


def test_marks_are_at_the_values_and_intervals_at_their_ends():
    axes = drawn(*POINTS, point("d", 0.7, 5.0, UNRANKED)).axes[0]
    assert [line[:2] for line in lines(axes, "None")][:2] == [([0.9, 0.5], [3.0, 1.0]), ([0.4], [2.0])]
    (cross,) = (line for line in axes.lines if line.get_marker() == "x")
    assert (list(cross.get_xdata()), list(cross.get_ydata())) == ([0.7], [5.0])
    bars = [
        bar.tolist() for bars in axes.collections if isinstance(bars, LineCollection) for bar in bars.get_segments()
    ]
    assert [[0.9, 2.5], [0.9, 3.5]] in bars


@pytest.mark.parametrize(
    ("points", "named"),
    [
        (POINTS, ["hf", "front", "95 % interval"]),
        ([POINTS[0], point("c", 0.4, 4.0, "dominated by a")], ["hf", "front", "95 % interval"]),
        ([point("d", 0.7, 5.0, UNRANKED)], ["not ranked: on no front", "95 % interval"]),
    ],
)
def test_the_legend_names_the_front_also_if_a_single_run_is_on_it(points: list[TradePoint], named: list[str]):
    (legend,) = drawn(*points).legends
    assert [text.get_text() for text in legend.get_texts()] == named


SIDES = st.sampled_from(["lower", "higher"])


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9), SIDES, SIDES)
def test_the_border_takes_the_worse_of_two_neighbours(values: list[tuple[int, int]], wide: str, high: str):
    worse = [max if side == "lower" else min for side in (wide, high)]
    members = [values[index] for index in pareto_front(values, (wide, high)).members]
    assume(len(members) > 1)
    points = tuple(point(str(number), *value, reach=0) for number, value in enumerate(members))
    trade = Trade(1, column("acc", wide, False), column("exposure", high, True), points, ("hf",), 0)
    (line,) = (each for each in draw_trade(trade).axes[0].lines if each.get_linestyle() == ":")
    expected = [members[0]]
    for start, end in itertools.pairwise(members):
        expected += [tuple(of(pair) for of, pair in zip(worse, zip(start, end, strict=True), strict=True)), end]
    assert line.get_drawstyle() == "steps-post"
    steps = STEP_LOOKUP_MAP["steps-post"](line.get_xdata(), line.get_ydata())
    assert [tuple(each) for each in zip(*steps, strict=True)] == expected


def test_a_name_that_would_cover_another_is_left_out():
    axes = drawn(*(point(f"a run with a long name {number}", 0.5, 1.0, reach=0) for number in range(9))).axes[0]
    boxes = [text.get_window_extent() for text in axes.texts]
    assert 0 < len(boxes) < 9
    assert not any(one.overlaps(other) for number, one in enumerate(boxes) for other in boxes[:number])


def test_a_name_is_text_and_no_markup():
    content = base64.b64decode(data_uri(drawn(point("<script>$x$", 0.5, 1.0))).partition(",")[2]).decode()
    assert "<script" not in content
    assert "&lt;script&gt;$x$" in content


def test_no_point_is_refused():
    with pytest.raises(OptionError, match="^no run has both acc and exposure: choose other columns$"):
        drawn()


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(FINITE, FINITE), min_size=1, max_size=3))
def test_every_value_below_the_limit_is_drawn(values: list[tuple[float, float]]):
    assert data_uri(drawn(*(point(str(number), *pair) for number, pair in enumerate(values)))).startswith("data:")
