"""Plots of a right and a wrong suffix: their tokens, and the probability of sampling each token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leakage_tasks.report.plots.style import QUIET, STRESS, colour, legend_below, line, new_figure, plain, save, tidy
from leakage_tasks.research.framework.report import Report, TableRow, point_of

SIDES = ("right", "wrong")
LOWEST = "lowest"
"""Name of the row with the lowest probability of all positions, in place of a position."""
_PANELS = {"the case of Figure 6": "{}, one case", "mean of all cases": "{}"}


def plot_6(report: Report, path: Path) -> None:
    """Plot a row of markers per suffix, one per token; wrong tokens have another marker and colour."""
    rows = [row for row in report.rows if row.get("tokens")]
    figure = new_figure(9.0, 0.8 + 0.55 * max(1, len(rows)))
    axes = figure.add_subplot()
    for height, row in enumerate(reversed(rows)):
        marks = str(row["tokens"])
        for colour_of_mark, mark in ((colour(0), "="), (STRESS, "x")):
            positions = [position for position, token_mark in enumerate(marks, 1) if token_mark == mark]
            axes.scatter(
                positions, [height] * len(positions), marker="s" if mark == "=" else "X", s=28, color=colour_of_mark
            )
    axes.set_yticks(range(len(rows)), [_label(row) for row in reversed(rows)])
    axes.set_ylim(-0.6, max(1, len(rows)) - 0.4)
    axes.set_xlabel("token of the suffix: a square is right, a cross is wrong")
    tidy(axes)
    save(figure, path)


def _label(row: TableRow) -> str:
    return plain(f"seed {row['seed']}, {row['suffix']}: drawn {row['drawn']}, loss {row['loss (nats a token)']:.2g}")


def plot_7(report: Report, path: Path) -> None:
    """Plot probabilities by position, of one case and on average."""
    rows = [row for row in report.rows if row["position"] != LOWEST]
    figure = new_figure(9.0, 3.8)
    for axes, (title, column) in zip(figure.subplots(1, 2, sharey=True), _PANELS.items(), strict=True):
        for number, side in enumerate(SIDES):
            points = list(_points(rows, column.format(side)))
            if points:
                positions, values, low, high = zip(*points, strict=True)
                axes.plot(positions, values, color=colour(number), linestyle=line(number), label=side)
                axes.fill_between(positions, low, high, color=colour(number), alpha=0.2, linewidth=0)
        axes.set_ylim(0, 1.02)
        axes.set_title(title, fontsize=10, color=QUIET)
        axes.set_xlabel("token of the suffix")
        axes.grid(axis="y", alpha=0.3)
    figure.axes[0].set_ylabel("probability of sampling it")
    legend_below(figure, zip(*figure.axes[1].get_legend_handles_labels(), strict=True))
    save(figure, path)


def _points(rows: Sequence[TableRow], column: str) -> Iterator[tuple[Any, float, float, float]]:
    for row in rows:
        cell = row.get(column)
        if isinstance(cell, float):
            yield row["position"], cell, cell, cell
        elif point := point_of(cell):
            yield (row["position"], *point)
