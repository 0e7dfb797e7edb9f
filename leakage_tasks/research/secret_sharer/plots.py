"""Plots of the studies of The Secret Sharer."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakage_tasks.report.plots import style
from leakage_tasks.research.framework.report import Measured, Report


def plot_losses_and_exposure(report: Report, path: Path) -> None:
    """Plot losses (left axis, bits per character) and exposures (right axis, bits) by epoch, as in Figure 4."""
    rows: list[Any] = list(report.rows)
    epochs = [row["epoch"] for row in rows]
    figure = style.new_figure(7.0, 4.4)
    left = figure.add_subplot()
    right = left.twinx()
    entries = []
    names = ("training loss", "validation loss", "exposure", "extrapolated", "controls")
    for number, name in enumerate(names):
        axes = left if name.endswith("loss") else right
        heights = [_height(row[name]) for row in rows]
        drawn = axes.plot(epochs, heights, style.marker(number), color=style.colour(number), markersize=4)
        drawn[0].set_linestyle(style.line(number))
        entries.append((drawn[0], name))
    lowest = min(rows, key=lambda row: row["validation loss"])["epoch"]
    entries.append((left.axvline(lowest, color=style.QUIET, linewidth=1, linestyle=":"), "lowest validation loss"))
    left.set(xlabel="epoch", ylabel="loss (bits per character)")
    right.set(ylabel="exposure (bits)", ylim=(0, None))
    for axes in (left, right):
        axes.spines["top"].set_visible(False)
    style.legend_below(figure, entries)
    style.save(figure, path)


def _height(cell: Any) -> float:
    """Return the height of a point, or NaN for an exposure that is only known as a lower bound."""
    if isinstance(cell, Measured):
        return cell.value
    return cell if isinstance(cell, float) else math.nan


def plotter_by_exposure(up: str, split: str, expected: str | None = None) -> Callable[[Report, Path], None]:
    """Return a function that plots the column ``up``, on a log axis, against extrapolated exposure.

    Each value of ``split`` has its colour and marker; a line shows the column ``expected``.
    """

    def plot(report: Report, path: Path) -> None:
        rows: list[Any] = list(report.rows)
        series: dict[str, list[Any]] = {}
        for row in rows:
            series.setdefault(f"{split}: {row[split]}", []).append((row["extrapolated"], row[up]))
        figure = style.new_figure(6.4, 4.2)
        axes = figure.add_subplot()
        entries = []
        for number, (name, points) in enumerate(series.items()):
            drawn = axes.plot(
                *zip(*points, strict=True), linestyle="", color=style.colour(number), marker=style.marker(number)
            )
            entries.append((drawn[0], name))
        if expected is not None:
            points = sorted((row["extrapolated"], row[expected]) for row in rows)
            entries.append((axes.plot(*zip(*points, strict=True), color=style.QUIET, linewidth=1)[0], "expected"))
        axes.set(yscale="log", xlabel="extrapolated exposure (bits)", ylabel=up)
        axes.grid(axis="y", alpha=0.3)
        style.tidy(axes)
        style.legend_below(figure, entries)
        style.save(figure, path)

    return plot


def plot_histogram_with_fit(report: Report, path: Path) -> None:
    """Plot bars of counts with a fitted curve, as in Figure 2."""
    rows: list[Any] = list(report.rows)
    middles, counts, fitted = ([row[name] for row in rows] for name in ("bits", "fillings", "fillings, fitted"))
    figure = style.new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    bars = axes.bar(middles, counts, width=middles[1] - middles[0], color="#BBBBBB")
    curve = axes.plot(middles, fitted, color=style.STRESS, linestyle="--", linewidth=2)[0]
    axes.set_xlabel("log-perplexity (bits)", fontsize=style.SMALL + 1)
    axes.set_ylabel("fillings")
    style.tidy(axes)
    style.legend_below(figure, [(bars[0], "random fillings"), (curve, "skew-normal fit")])
    style.save(figure, path)
