"""Plots of exposure over training, and from run to run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.load.training_log import EpochExposure
from leakage_tasks.report.plots.style import (
    WHOLE,
    Entry,
    bound_entry,
    colour,
    draw_levels,
    hollow,
    legend_below,
    marker,
    new_figure,
    plain,
    save,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Bits = Mapping[str, Sequence[float]]
"""Exposures by canary, one per run."""
CROWD = 6
"""Maximum number of canaries of one tier that are drawn as heavy lines; for more canaries, the mean is drawn over thin
lines."""


def chance_levels(sizes: Iterable[float]) -> dict[str, float]:
    """Return the levels to compare exposure with, by name: chance and the maximum, for each of ``sizes`` = log2|R|."""
    from leakage_tasks.metrics import chance_exposure

    most = {f"at most: log₂|R| = {size:.1f}": size for size in sizes}
    chances = [chance_exposure(max(1, round(2 ** min(size, 1000.0)))) for size in most.values()]
    return {f"chance: {chance:.2f}": chance for chance in chances} | most


def exposure_axis(axes: Axes, exposures: Iterable[float], sizes: Iterable[float]) -> None:
    """Set up the vertical axis of exposures, with lines at chance and at the maximum of each of ``sizes`` = log2|R|.

    Of more than three sizes, only the smallest and the largest have lines.
    """
    ordered = sorted(set(sizes))
    named = chance_levels(ordered if len(ordered) <= 3 else (ordered[0], ordered[-1]))
    # An extrapolated exposure may exceed log2|R|.
    axes.set_ylim(0, max(1.0, *named.values(), *exposures) * 1.1)
    draw_levels(axes, named)
    axes.set_ylabel("exposure (bits)")
    tidy(axes)


def plot_exposure_by_epoch(history: Iterable[EpochExposure], path: str | Path, *, words: str = "epoch") -> Path:
    """Draw exposure over training and save it as PNG, or as SVG if ``path`` ends in ``.svg``.

    Raises OptionError without exposures.
    """
    return save(draw_epochs(history, words=words), path)


def draw_epochs(history: Iterable[EpochExposure], *, words: str = "epoch") -> Figure:
    """Draw a line per planted canary, and the mean and range of the controls; ``words`` names the horizontal axis.

    Natural secrets and their controls are drawn apart, whatever their number of copies. Two level lines help to read
    it: chance (1.44 bits, the mean of secrets that were never shown) and log2|R|, the upper bound. If a tier has more
    than six canaries, its mean is drawn over them. Raises OptionError without exposures.
    """
    from matplotlib.ticker import MaxNLocator

    points = sorted(history, key=lambda point: (point.repetitions, point.canary, point.epoch))
    if not points:
        raise OptionError("no exposure to draw: the history is empty")
    figure = new_figure(8, 4.8)
    axes = figure.add_subplot()
    groups: dict[str, list[EpochExposure]] = {}
    for point in sorted(points, key=lambda point: (point.natural, -point.repetitions)):
        groups.setdefault(_group(point), []).append(point)
    planted = [(label, group) for label, group in groups.items() if group[0].repetitions]
    entries = [_draw_group(axes, group, label, number) for number, (label, group) in enumerate(planted)]
    for label, group in groups.items():
        entries += [] if group[0].repetitions else _draw_controls(axes, group, label)
    exposure_axis(axes, [point.exposure for point in points], {point.log2_size for point in points})
    axes.set_xlabel(words)
    axes.set_title("Exposure of each canary over training", fontsize=11)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    if len({point.epoch for point in points}) == 1:
        axes.set_xlim(points[0].epoch - 0.5, points[0].epoch + 0.5)
    bounds = [bound_entry(axes)] if any(point.bound for point in points if point.repetitions) else []
    legend_below(figure, [*entries, *bounds])
    return figure


def _group(point: EpochExposure) -> str:
    from leakage_tasks.metrics.tiers import planted_words

    if not point.repetitions:
        return "natural controls" if point.natural else "never shown"
    return "natural secrets" if point.natural else planted_words(point.tier)


def _draw_controls(axes: Axes, points: Sequence[EpochExposure], label: str) -> list[Entry]:
    by_epoch = _by_epoch(points)
    epochs = list(by_epoch)
    count = len({point.canary for point in points})
    low, high = ([pick(by_epoch[epoch]) for epoch in epochs] for pick in (min, max))
    # A single epoch gives no line, so it gets a mark.
    dot = "." if len(epochs) == 1 else ""
    means = [fmean(bits) for bits in by_epoch.values()]
    shade = "#777777" if points[0].natural else "black"
    line = axes.plot(epochs, means, color=shade, linestyle=":", linewidth=2, marker=dot)[0]
    band = axes.fill_between(epochs, low, high, color="#999999", alpha=0.3, linewidth=0 if len(epochs) > 1 else 4)
    return [(line, f"{label}, mean of {count}"), (band, f"{label}, range")]


def _draw_group(axes: Axes, points: Sequence[EpochExposure], label: str, number: int) -> Entry:
    lines: dict[str, list[EpochExposure]] = {}
    for point in points:
        lines.setdefault(point.canary, []).append(point)
    heavy: dict[str, Any] = {"marker": marker(number), "markersize": 5, "linewidth": 1.8, "zorder": 3, **WHOLE}
    thin = {
        "marker": ".",
        "markersize": 2,
        "linewidth": 0.7,
        "zorder": 2,
        "alpha": max(0.15, min(0.5, 10 / len(lines))),
    }
    crowded = len(lines) > CROWD
    for line in lines.values():
        epochs, bits = [point.epoch for point in line], [point.exposure for point in line]
        handle = axes.plot(epochs, bits, color=colour(number), **(thin if crowded else heavy))[0]
        if not crowded:
            _mark_bounds(axes, [(point.epoch, point.exposure) for point in line if point.bound], number)
    if crowded:
        by_epoch = _by_epoch(points)
        means = [fmean(bits) for bits in by_epoch.values()]
        handle = axes.plot(list(by_epoch), means, color=colour(number), **heavy)[0]
        bounds = {point.epoch for point in points if point.bound}
        _mark_bounds(axes, [(epoch, fmean(bits)) for epoch, bits in by_epoch.items() if epoch in bounds], number)
        label += f", each of {len(lines)} and their mean"
    return handle, label


def _mark_bounds(axes: Axes, points: Sequence[tuple[int, float]], number: int) -> None:
    """Draw hollow marks over the lower bounds in a line of series ``number``."""
    if points:
        axes.plot(*zip(*points, strict=True), **hollow(colour(number), marker=marker(number), markersize=5))


def _by_epoch(points: Sequence[EpochExposure]) -> dict[int, list[float]]:
    by_epoch: dict[int, list[float]] = {}
    for point in sorted(points, key=lambda point: point.epoch):
        by_epoch.setdefault(point.epoch, []).append(point.exposure)
    return by_epoch


def draw_slopes(
    names: Sequence[str], groups: Mapping[str, Bits], least: Mapping[str, Collection[int]] | None = None
) -> Figure:
    """Draw a line per canary over the runs in ``names``, a colour per group and the group's mean; controls are grey.

    ``least`` holds by group the positions of runs in which the exposure of a canary is a lower bound, so that their
    mean is one, too. Raises OptionError without exposures.
    """
    from leakage_tasks.report.load.format import NEVER

    if not any(groups.values()):
        raise OptionError("no exposure to draw: no canary has an exposure in all runs: give runs of one manifest")
    figure = new_figure(max(5.0, 2.2 * len(names) + 1.5), 4.8)
    axes = figure.add_subplot()
    positions = range(len(names))
    entries: list[Entry] = []
    planted = [group for group in groups if group != NEVER]
    for group, by_canary in groups.items():
        shade = "#777777" if group == NEVER else colour(planted.index(group))
        thin: dict[str, Any] = {"color": shade, "linewidth": 0.8, "alpha": max(0.15, min(0.6, 10 / len(by_canary)))}
        for bits in by_canary.values():
            axes.plot(positions, bits, **thin)
        mark = "." if group == NEVER else marker(planted.index(group))
        means = [fmean(bits[position] for bits in by_canary.values()) for position in positions]
        line = axes.plot(positions, means, color=shade, marker=mark, linewidth=2.2, zorder=3)[0]
        entries.append((line, f"{group}, each of {len(by_canary)} and their mean"))
        bounds = [(position, means[position]) for position in sorted((least or {}).get(group, ()))]
        if bounds:
            axes.plot(*zip(*bounds, strict=True), **hollow(shade, marker=mark, markersize=6))
    entries += [bound_entry(axes)] if any((least or {}).values()) else []
    axes.set_xticks(positions, [plain(name) for name in names])
    axes.set(xlim=(-0.2, len(names) - 0.8), ylim=(0, None), ylabel="exposure (bits)")
    tidy(axes)
    legend_below(figure, entries)
    return figure
