"""Plot of usefulness against leakage, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.board import Column
from leakage_tasks.report.board.front import Trade, TradePoint
from leakage_tasks.report.plots.style import (
    QUIET,
    SMALL,
    STRESS,
    Entry,
    colour,
    legend_below,
    marker,
    new_figure,
    plain,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PLACES = ((7, 3, "left"), (-7, 3, "right"), (7, -11, "left"), (-7, -11, "right"))
"""Positions of a name next to its mark: offsets in points and alignment, the first choice first."""


def draw_trade(trade: Trade) -> Figure:
    """Draw a mark per run with its intervals, a colour and shape per kind of model, and the border of the front.

    A name that would cover another name or mark is left out. Raises OptionError without points.
    """
    if not trade.points:
        raise OptionError(f"no run has both {trade.across.title} and {trade.up.title}: choose other columns")
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    axes.set(xlabel=_axis_title(trade.across), ylabel=_axis_title(trade.up))
    axes.margins(0.07)
    axes.grid(alpha=0.3)
    tidy(axes)
    entries = [
        _draw_points(axes, members, number, model)
        for number, model in enumerate(trade.models)
        if (members := [point for point in trade.points if point.ranked and point.model == model])
    ]
    if unranked := [point for point in trade.points if not point.ranked]:
        line = axes.plot(*_values(unranked), "x", color=STRESS, markersize=7, markeredgewidth=2)[0]
        entries.append((line, "not ranked: on no front"))
    legend_below(figure, [*entries, *_draw_front(axes, trade), *_draw_intervals(axes, trade.points)])
    figure.draw_without_rendering()
    # The names are placed for this layout.
    figure.set_layout_engine("none")
    _draw_names(axes, trade.points)
    return figure


def _axis_title(column: Column) -> str:
    unit = f"{column.unit}, " if column.unit else ""
    return f"{plain(column.title)} ({unit}{column.direction} is better)"


def _values(points: Sequence[TradePoint]) -> tuple[list[float], list[float]]:
    return [point.across.value or 0.0 for point in points], [point.up.value or 0.0 for point in points]


def _draw_points(axes: Axes, points: Sequence[TradePoint], number: int, model: str) -> Entry:
    look: dict[str, Any] = {"color": colour(number), "marker": marker(number), "linestyle": "none", "markersize": 7}
    on_front = [point for point in points if point.member]
    axes.plot(*_values(on_front), **look, markeredgecolor="black", markeredgewidth=1.5, zorder=4)
    others = axes.plot(*_values([point for point in points if not point.member]), **look, zorder=3)[0]
    return others, plain(model)


def _draw_front(axes: Axes, trade: Trade) -> list[Entry]:
    """Draw the border of the dominated area: between two neighbours it takes the worse of both values."""
    members = [point for point in trade.points if point.member]
    if len(members) < 2:
        return []
    wide, high = _values(members)
    worse = [max if column.direction == "lower" else min for column in (trade.across, trade.up)]
    steps = [
        step
        for start, end in zip(zip(wide, high, strict=True), list(zip(wide, high, strict=True))[1:], strict=False)
        for step in (start, (worse[0](start[0], end[0]), worse[1](start[1], end[1])), end)
    ]
    return [(axes.plot(*zip(*steps, strict=True), color="black", linestyle=":", linewidth=1.3, zorder=2)[0], "front")]


def _draw_intervals(axes: Axes, points: Sequence[TradePoint]) -> list[Entry]:
    reaches = [
        [
            [0.0, 0.0]
            if figure.low is None or figure.high is None or figure.value is None
            else [max(0.0, figure.value - figure.low), max(0.0, figure.high - figure.value)]
            for figure in figures
        ]
        for figures in ([point.across for point in points], [point.up for point in points])
    ]
    if not any(end for reach in reaches for ends in reach for end in ends):
        return []
    wide, high = (np.transpose(reach) for reach in reaches)
    bars = axes.errorbar(
        *_values(points), xerr=wide, yerr=high, fmt="none", ecolor=QUIET, elinewidth=1, alpha=0.7, zorder=1
    )
    return [(bars, "95 % interval")]


def _draw_names(axes: Axes, points: Sequence[TradePoint]) -> None:
    """Write each name at the first position at which it covers nothing; call it after the layout is known."""
    scale = axes.figure.dpi / 72
    frame = axes.get_window_extent()
    marks = axes.transData.transform(np.transpose(_values(points)))
    taken = [(x - 5 * scale, y - 5 * scale, x + 5 * scale, y + 5 * scale) for x, y in marks]
    for point, (x, y) in zip(points, marks, strict=True):
        name = plain(point.name)
        width, height = len(name) * SMALL * 0.62 * scale, SMALL * scale
        for right, above, side in _PLACES:
            left, low = x + right * scale - (width if side == "right" else 0), y + above * scale
            box = (left, low, left + width, low + height)
            inside = frame.x0 <= box[0] and box[2] <= frame.x1 and frame.y0 <= box[1] and box[3] <= frame.y1
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                look: dict[str, Any] = {"fontsize": SMALL, "fontweight": "bold" if point.member else "normal"}
                place = (point.across.value or 0.0, point.up.value or 0.0)
                axes.annotate(name, place, (right, above), textcoords="offset points", ha=side, zorder=5, **look)
                break


def _overlap(one: Sequence[float], other: Sequence[float]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
