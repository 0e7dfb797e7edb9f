"""Plots of the studies of The Secret Sharer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from leakage_tasks.report.plots.style import QUIET, SMALL, STRESS, colour, legend_below, marker, new_figure, save, tidy
from leakage_tasks.report.plots.style import line as line_style


def plot_losses_and_exposure(
    epochs: Sequence[int], losses: Mapping[str, Sequence[float]], exposures: Mapping[str, Sequence[float]], path: Path
) -> None:
    """Losses (left axis, bits a character) and exposures (right axis, bits) by epoch, as in Figure 4."""
    figure = new_figure(7.0, 4.4)
    left = figure.add_subplot()
    right = left.twinx()
    entries = []
    for number, (name, values) in enumerate({**losses, **exposures}.items()):
        axes = left if name in losses else right
        drawn = axes.plot(
            epochs, values, color=colour(number), linestyle=line_style(number), marker=marker(number), markersize=4
        )
        entries.append((drawn[0], name))
    lowest = min(range(len(epochs)), key=lambda place: losses["validation loss"][place])
    entries.append((left.axvline(epochs[lowest], color=QUIET, linewidth=1, linestyle=":"), "lowest validation loss"))
    left.set_xlabel("epoch")
    left.set_ylabel("loss (bits a character)")
    right.set_ylabel("exposure (bits)")
    right.set_ylim(bottom=0)
    left.spines["top"].set_visible(False)
    right.spines["top"].set_visible(False)
    legend_below(figure, entries)
    save(figure, path)


def plot_points(
    series: Mapping[str, Sequence[tuple[float, float]]],
    words: tuple[str, str],
    path: Path,
    *,
    line: Sequence[tuple[float, float]] = (),
) -> None:
    """Points, a colour and mark for each series, over a logarithmic vertical axis; ``line`` is what is expected."""
    figure = new_figure(6.4, 4.2)
    axes = figure.add_subplot()
    entries = []
    for number, (name, points) in enumerate(series.items()):
        drawn = axes.plot(*zip(*points, strict=True), linestyle="", color=colour(number), marker=marker(number))
        entries.append((drawn[0], name))
    if line:
        entries.append((axes.plot(*zip(*sorted(line), strict=True), color=QUIET, linewidth=1)[0], "expected"))
    axes.set_yscale("log")
    axes.set_xlabel(words[0])
    axes.set_ylabel(words[1])
    axes.grid(axis="y", alpha=0.3)
    tidy(axes)
    legend_below(figure, entries)
    save(figure, path)


def plot_histogram_with_fit(
    middles: Sequence[float], counts: Sequence[float], fitted: Sequence[float], path: Path
) -> None:
    """Bars of counts with a fitted curve over them, as in Figure 2."""
    figure = new_figure(6.4, 4.0)
    axes = figure.add_subplot()
    width = middles[1] - middles[0]
    bars = axes.bar(middles, counts, width=width, color="#BBBBBB")
    curve = axes.plot(middles, fitted, color=STRESS, linestyle="--", linewidth=2)[0]
    axes.set_xlabel("log-perplexity (bits)", fontsize=SMALL + 1)
    axes.set_ylabel("fillings")
    tidy(axes)
    legend_below(figure, [(bars[0], "random fillings"), (curve, "skew-normal fit")])
    save(figure, path)
