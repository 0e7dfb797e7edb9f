"""Plots of suffix extraction: lines with standard deviations, a panel a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.report.plots.style import colour, line, marker, new_figure, save

Spread = tuple[Any, float, float]
"""Place on the horizontal axis (a number, or a name), value, and standard deviation."""


def plot_lines(
    panels: Mapping[str, Mapping[str, Sequence[Spread]]], words: str, path: Path, *, logarithmic: bool = False
) -> None:
    """Panels side by side, a line a series, over one horizontal axis called ``words``; shares from 0 up."""
    figure = new_figure(9.0, 3.8)
    for axes, (title, series) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for number, (name, points) in enumerate(series.items()):
            places, values, spreads = zip(*points, strict=True)
            axes.errorbar(
                places,
                values,
                yerr=spreads,
                marker=marker(number),
                linestyle=line(number),
                color=colour(number),
                capsize=2,
                label=name,
            )
        if logarithmic:
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(words)
        axes.set_ylabel(title)
        axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    save(figure, path)
