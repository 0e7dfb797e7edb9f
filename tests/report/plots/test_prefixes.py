"""Memorized windows by length of the prefix, as drawn."""

from __future__ import annotations

from leakage_tasks.report.plots.prefixes import PrefixCurve, draw_prefixes
from leakage_tasks.report.plots.style import LengthShare


def test_a_marker_on_the_lower_edge_is_drawn_whole() -> None:
    axes = draw_prefixes([PrefixCurve("exact", [LengthShare(20, 0.0, 0.0, 0.2), LengthShare(50, 0.1, 0.0, 0.3)])]).axes[
        0
    ]
    assert axes.get_ylim()[0] == 0
    assert [line.get_clip_on() for line in axes.lines if line.get_marker() == "o"] == [False]
