"""Plot of usefulness against leakage, with the Pareto front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.board import Column
from leakage_tasks.report.board.front import ON_FRONT, UNRANKED, Trade, TradePoint
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
    reach,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = 40
"""Maximum number of names."""
_PLACES: tuple[Any, ...] = (((7, 3), "left"), ((-7, 3), "right"), ((7, -11), "left"), ((-7, -11), "right"))
"""Positions of a name next to its mark: offset in points and alignment, the first choice first."""


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
        if (members := [point for point in trade.points if point.standing != UNRANKED and point.model == model])
    ]
    if unranked := [point for point in trade.points if point.standing == UNRANKED]:
        line = axes.plot(*_values(unranked), "x", color=STRESS, markersize=7, markeredgewidth=2)[0]
        entries.append((line, "not ranked: on no front"))
    legend_below(figure, [*entries, *_draw_front(axes, trade.points), *_draw_intervals(axes, trade.points)])
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
    on_front = [point for point in points if point.standing == ON_FRONT]
    axes.plot(*_values(on_front), **look, markeredgecolor="black", markeredgewidth=1.5, zorder=4)
    others = axes.plot(*_values([point for point in points if point.standing != ON_FRONT]), **look, zorder=3)[0]
    return others, plain(model)


def _draw_front(axes: Axes, points: Sequence[TradePoint]) -> list[Entry]:
    """Draw the border of the dominated area: between two neighbours it takes the worse of both values."""
    members = [point for point in points if point.standing == ON_FRONT]
    if len(members) == 1:
        # A single run has no border; the legend explains its outline.
        outline: dict[str, Any] = {"marker": "o", "color": "white", "markeredgecolor": "black", "markeredgewidth": 1.5}
        return [(axes.plot([], [], linestyle="none", markersize=7, **outline)[0], "front")]
    if not members:
        return []
    # From one member to the next, the first value gets worse and the second better.
    look: dict[str, Any] = {"drawstyle": "steps-post", "color": "black", "linestyle": ":", "linewidth": 1.3}
    return [(axes.plot(*_values(members), **look, zorder=2)[0], "front")]


def _draw_intervals(axes: Axes, points: Sequence[TradePoint]) -> list[Entry]:
    wide, high = (
        np.transpose([reach(figure) for figure in figures])
        for figures in ([point.across for point in points], [point.up for point in points])
    )
    if not wide.any() and not high.any():
        return []
    look: dict[str, Any] = {"fmt": "none", "ecolor": QUIET, "elinewidth": 1, "alpha": 0.7, "zorder": 1}
    return [(axes.errorbar(*_values(points), xerr=wide, yerr=high, **look), "95 % interval")]


def _draw_names(axes: Axes, points: Sequence[TradePoint]) -> None:
    """Write each name at the first position at which it covers nothing; call it after the layout is known."""
    from matplotlib.transforms import Bbox

    half, frame = 5 * axes.figure.dpi / 72, axes.get_window_extent()
    marks = axes.transData.transform(np.transpose(_values(points)))
    taken = [Bbox([place - half, place + half]) for place in marks]
    for point in points[:NAMES]:
        place = (point.across.value or 0.0, point.up.value or 0.0)
        look: dict[str, Any] = {"fontsize": SMALL, "fontweight": "bold" if point.standing == ON_FRONT else "normal"}
        name = axes.annotate(plain(point.name), place, (0, 0), textcoords="offset points", zorder=5, **look)
        for offset, side in _PLACES:
            name.xyann = offset
            name.set_horizontalalignment(side)
            box = name.get_window_extent()
            inside = frame.contains(*box.min) and frame.contains(*box.max)
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                break
        else:
            name.remove()
