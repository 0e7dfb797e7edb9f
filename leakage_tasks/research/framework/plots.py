"""Plots that studies of several papers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.report.plots.style import QUIET, colour, marker, new_figure, save

Point = tuple[float, float, float]
"""Value, and the lower and upper end of its interval."""


def plot_groups(
    groups: Mapping[str, Mapping[str, Point | None]],
    words: str,
    path: Path,
    *,
    chance: float | Sequence[float] | None = None,
    across: str = "",
) -> None:
    """Points with intervals: a place on the horizontal axis for each group, a colour and mark for each series.

    ``words`` stand at the vertical axis, ``across`` at the horizontal one.

    The vertical axis is logarithmic above 1 and linear below, so that a count of 0 has its place. With ``chance`` the
    points are shares: the axis is linear from 0 to 1, and a line shows what a guess at random gets, or one a group.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    figure = new_figure(max(6.0, 1.0 + 0.55 * len(groups)), 4.2)
    axes = figure.add_subplot()
    for number, name in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * 0.18
        points = [(place + shift, group.get(name)) for place, group in enumerate(groups.values())]
        shown = [(place, point) for place, point in points if point is not None]
        values = [point[0] for _, point in shown]
        reach = [[point[0] - point[1] for _, point in shown], [point[2] - point[0] for _, point in shown]]
        look: dict[str, Any] = {"fmt": marker(number), "color": colour(number), "capsize": 2, "label": name}
        bars = [[max(0.0, each) for each in side] for side in reach]
        axes.errorbar([place for place, _ in shown], values, yerr=bars, **look)
    if chance is None:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    else:
        axes.set_ylim(0, 1)
        if isinstance(chance, float):
            axes.axhline(chance, color=QUIET, linestyle=":", label="chance")
        else:
            starts = [place - 0.4 for place in range(len(groups))]
            axes.hlines(chance, starts, [at + 0.8 for at in starts], colors=QUIET, linestyles=":", label="chance")
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(series) + 1)
    long = max(map(len, groups), default=0) > 8
    axes.set_xticks(range(len(groups)), list(groups), rotation=45 if long else 0, ha="right" if long else "center")
    axes.set_xlabel(across)
    axes.set_ylabel(words)
    axes.grid(axis="y", alpha=0.3)
    save(figure, path)
