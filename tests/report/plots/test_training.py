"""Losses and exposure in one picture."""

from __future__ import annotations

import dataclasses

import pytest

from leakage_tasks.report.load.training_log import TrainingCurves
from leakage_tasks.report.plots.training import draw_training

RUN = TrainingCurves(
    training=[(n / 2, 5 - n / 4) for n in range(1, 11)],
    validation=[(1, 4.6), (2, 4.2), (3, 4.0), (4, 4.1), (5, 4.4)],
    planted={1: [(n, n / 2) for n in range(6)], 10: [(n, 4.0 * n) for n in range(6)]},
    controls=[(n, 1.4) for n in range(6)],
    log2_size=29.9,
)


def lines(axes) -> dict[tuple, str]:
    """What is drawn as a line or a mark, and its colour."""
    return {tuple(map(tuple, line.get_xydata())): str(line.get_color()) for line in axes.lines}


def words(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_losses_are_drawn_left_and_exposure_right():
    losses, bits = draw_training(RUN).axes
    assert {tuple(RUN.training), tuple(RUN.validation)} <= set(lines(losses))
    assert {*map(tuple, RUN.planted.values()), tuple(RUN.controls)} <= set(lines(bits))
    assert lines(bits)[tuple(RUN.controls)] == "black"
    assert (losses.get_ylabel(), bits.get_ylabel()) == ("loss (nats per token)", "exposure (bits)")
    assert losses.get_xlabel() == "epoch"
    assert draw_training(dataclasses.replace(RUN, over="step")).axes[0].get_xlabel() == "step"


def test_no_two_curves_look_alike():
    shown = [line for axes in draw_training(RUN).axes for line in axes.lines if len(line.get_xdata()) > 2]
    assert len({(str(line.get_color()), line.get_marker()) for line in shown}) == len(shown) == 5


def test_canaries_that_training_did_not_learn_from_are_named_so():
    points = RUN.planted[1]
    shown = words(draw_training(dataclasses.replace(RUN, planted={None: points, 4: points, 0: points})))
    tiers = ["planted 4 times", "read only as context", "absent from the training data"]
    assert [word.removeprefix("exposure, ") for word in shown if word.removeprefix("exposure, ") in tiers] == tiers


def test_chance_and_the_bound_are_level_lines_within_the_axis():
    bits = draw_training(RUN).axes[1]
    heights = {line.get_ydata()[0] for line in bits.lines if list(line.get_xdata()) == [0, 1]}
    assert sorted(heights) == pytest.approx([1.4427, 29.9], abs=1e-3)
    assert bits.get_ylim()[0] == 0 < 29.9 < bits.get_ylim()[1]


def test_the_lowest_validation_loss_is_marked():
    figure = draw_training(RUN)
    assert ((3.0, 4.0),) in lines(figure.axes[0])
    assert "lowest validation loss: 4 at epoch 3" in words(figure)


@pytest.mark.parametrize(
    ("left_out", "missing"),
    [("training", "training loss"), ("validation", "validation loss"), ("controls", "exposure, never planted")],
)
def test_a_run_without_some_of_it_is_drawn_without(left_out, missing):
    assert missing in words(draw_training(RUN))
    assert not any(missing in each for each in words(draw_training(dataclasses.replace(RUN, **{left_out: []}))))


def test_a_lone_validation_loss_is_no_minimum_but_has_a_mark():
    figure = draw_training(dataclasses.replace(RUN, validation=[(2, 4.2)]))
    assert not any("lowest" in each for each in words(figure))
    (alone,) = [line for line in figure.axes[0].lines if len(line.get_xdata()) == 1]
    assert alone.get_marker() == "."


def test_of_thousands_of_points_some_are_marked():
    many = [(n, n / 100) for n in range(1000)]
    bits = draw_training(dataclasses.replace(RUN, planted={1: many})).axes[1]
    (line,) = [line for line in bits.lines if len(line.get_xdata()) == 1000]
    assert 1000 / line.get_markevery() <= 70


def test_a_mark_at_0_bits_is_drawn_whole():
    marks = [line for line in draw_training(RUN).axes[1].lines if line.get_marker() != "None"]
    assert [line.get_clip_on() for line in marks] == [False] * 3


def test_lower_bounds_are_hollow_and_the_legend_says_so():
    figure = draw_training(dataclasses.replace(RUN, bounds={10: [2, 3]}))
    marks = [line for line in figure.axes[1].lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert [list(map(tuple, line.get_xydata())) for line in marks] == [[(2, 8), (3, 12)]]
    assert "hollow: at least this value" in words(figure)
    assert "hollow: at least this value" not in words(draw_training(RUN))


def test_of_thousands_of_points_every_mark_over_a_lower_bound_is_hollow():
    """A filled mark would say that the exposure is known; every tenth bound is not at every tenth point."""
    many = [(n, n / 100) for n in range(1, 1000)]
    bounds = [position for position, _ in many if position > 500]
    bits = draw_training(dataclasses.replace(RUN, planted={1: many}, bounds={1: bounds})).axes[1]
    (line,) = [line for line in bits.lines if len(line.get_xdata()) == 999]
    marked = list(line.get_xdata())[:: line.get_markevery()]
    (hollow,) = [line for line in bits.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert hollow.get_markevery() is None
    stride = line.get_markevery()
    assert list(hollow.get_xdata()) == [place for place in marked if place + stride > 501]
    rare = draw_training(dataclasses.replace(RUN, planted={1: many}, bounds={1: [903]})).axes[1]
    (hollow,) = [line for line in rare.lines if line.get_markerfacecolor() == "white" and len(line.get_xdata())]
    assert len(hollow.get_xdata()) == 1
