"""Plots that studies of several papers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.report.plots.style import QUIET, colour, marker, new_figure, save
from leakage_tasks.research.framework.registry import Draw
from leakage_tasks.research.framework.report import Report, TableRow, point_of

Point = tuple[float, float, float]
"""Value, and the lower and upper end of its interval."""


def plotter(
    name: Callable[[TableRow], str],
    series: Mapping[str, str],
    words: str,
    *,
    chance: float | str | None = None,
    across: str = "",
) -> Draw:
    """Return a function that draws a report with :func:`plot_groups`, with a group per row.

    Args:
        name: returns the name of a row's group.
        series: the column of each series.
        words: label of the vertical axis.
        chance: success of a random guess, or the column that has it.
        across: label of the horizontal axis.
    """

    def plot(report: Report, path: Path) -> None:
        groups = {name(row): {title: point_of(row[column]) for title, column in series.items()} for row in report.rows}
        levels: Any = [row[chance] for row in report.rows] if isinstance(chance, str) else chance
        plot_groups(groups, words, path, chance=levels, across=across)

    return plot


def plot_groups(
    groups: Mapping[str, Mapping[str, Point | None]],
    words: str,
    path: Path,
    *,
    chance: float | Sequence[float] | None = None,
    across: str = "",
) -> None:
    """Plot values with intervals: one position per group, and one colour and marker per series.

    The vertical axis is logarithmic above 1 and linear below, so that it can show a count of 0. With ``chance``, values
    are shares: the axis is linear from 0 to 1, and a line shows the success of a random guess.

    Args:
        groups: points by group and series; None is not drawn.
        words: label of the vertical axis.
        path: the PNG to write.
        chance: success of a random guess, for all groups or for length.
        across: label of the horizontal axis.
    """
    series = list(dict.fromkeys(name for group in groups.values() for name in group))
    figure = new_figure(max(6.0, 1.0 + 0.55 * len(groups)), 4.2)
    axes = figure.add_subplot()
    for number, name in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * 0.18
        points = [(position + shift, group.get(name)) for position, group in enumerate(groups.values())]
        shown = [(position, point) for position, point in points if point is not None]
        values = [point[0] for _, point in shown]
        reach = [[point[0] - point[1] for _, point in shown], [point[2] - point[0] for _, point in shown]]
        style: dict[str, Any] = {"fmt": marker(number), "color": colour(number), "capsize": 2, "label": name}
        bars = [[max(0.0, length) for length in side] for side in reach]
        axes.errorbar([position for position, _ in shown], values, yerr=bars, **style)
    if chance is None:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False)
    else:
        axes.set_ylim(0, 1)
        if isinstance(chance, float):
            axes.axhline(chance, color=QUIET, linestyle=":", label="chance")
        else:
            starts = [position - 0.4 for position in range(len(groups))]
            axes.hlines(chance, starts, [at + 0.8 for at in starts], colors=QUIET, linestyles=":", label="chance")
        axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(series) + 1)
    long = max(map(len, groups), default=0) > 8
    axes.set_xticks(range(len(groups)), list(groups), rotation=45 if long else 0, ha="right" if long else "center")
    axes.set_xlabel(across)
    axes.set_ylabel(words)
    axes.grid(axis="y", alpha=0.3)
    save(figure, path)
