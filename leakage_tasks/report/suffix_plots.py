"""Plots of suffix extraction: lines with standard deviations, a panel a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.files import replacing
from leakage_tasks.report.study_plots import COLOURS, MARKS

Spread = tuple[Any, float, float]
"""Place on the horizontal axis (a number, or a name), value, and standard deviation."""


def plot_lines(
    panels: Mapping[str, Mapping[str, Sequence[Spread]]], words: str, path: Path, *, logarithmic: bool = False
) -> None:
    """Panels side by side, a line a series, over one horizontal axis called ``words``; shares from 0 up."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    for axes, (title, series) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for number, (name, points) in enumerate(series.items()):
            places, values, spreads = zip(*points, strict=True)
            axes.errorbar(
                places,
                values,
                yerr=spreads,
                marker=MARKS[number % len(MARKS)],
                color=COLOURS[number % len(COLOURS)],
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
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=150)
