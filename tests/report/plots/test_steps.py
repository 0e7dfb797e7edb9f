"""The plot over steps shows every value, its interval and the controls."""

from __future__ import annotations

import pytest

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.steps import StepLine, StepPanel
from leakage_tasks.report.load.figures import Figure
from leakage_tasks.report.plots.steps import MOST, draw_steps

POINTS = ((10, Figure(2.0, 1.0, 4.0)), (20, Figure(3.0, 2.5, 3.5)))
CONTROLS = ((10, Figure(1.25)), (20, Figure(1.5)))


def panel(*lines: StepLine, controls: tuple[tuple[int, Figure], ...] = CONTROLS) -> StepPanel:
    return StepPanel("Exposure", "bits", "lower", lines, controls)


def test_values_intervals_and_controls_are_drawn() -> None:
    (axes,) = draw_steps([panel(StepLine("planted once", POINTS))]).axes
    drawn = [list(map(tuple, line.get_xydata())) for line in axes.lines]
    assert [(10.0, 2.0), (20.0, 3.0)] in drawn
    assert [(10.0, 1.25), (20.0, 1.5)] in drawn
    (bars,) = axes.containers[0].lines[2]
    assert [[tuple(end) for end in bar] for bar in bars.get_segments()] == [
        [(10.0, 1.0), (10.0, 4.0)],
        [(20.0, 2.5), (20.0, 3.5)],
    ]
    assert axes.get_ylabel() == "bits, lower is better ↓"


def test_a_line_without_intervals_has_no_bars() -> None:
    (axes,) = draw_steps([panel(StepLine("recall", CONTROLS), controls=())]).axes
    assert not axes.containers
    assert len(axes.lines) == 1


def test_names_are_shown_as_they_are() -> None:
    figure = draw_steps([panel(StepLine("$x$ planted", POINTS))])
    (legend,) = figure.legends
    assert legend.get_texts()[0].get_text() == r"\$x\$ planted"


def test_few_panels_are_drawn_and_those_without_values_left_out() -> None:
    full = panel(StepLine("a", POINTS))
    assert len(draw_steps([full, panel(StepLine("b", ())), *[full] * MOST]).axes) == MOST
    with pytest.raises(OptionError, match="no metric to draw"):
        draw_steps([panel(StepLine("b", ()))])
