"""Losses and exposure over one run (The Secret Sharer, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakage_tasks.report.load.training_log import Point, TrainingCurves
from leakage_tasks.report.plots.exposure import chance_levels
from leakage_tasks.report.plots.style import (
    DASHED,
    QUIET,
    Entry,
    bound_entry,
    colour,
    hollow,
    legend_below,
    marker,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CROWD = 60
"""The most points of a curve that are marked one by one."""
_LOSSES = {"training": "#999999", "validation": "#333333"}
_LEVELS: tuple[Any, ...] = ((0, (1, 3)), DASHED)


def draw_training(curves: TrainingCurves) -> Figure:
    """Losses against the left axis, in greys; exposure against the right, a colour and mark a number of repetitions.

    Controls are black. Level lines are the exposure of a secret never shown, on average, and log2|R|; where the
    validation loss is lowest a ring and a line across stand.
    """
    figure = new_figure(8, 5)
    losses = figure.add_subplot()
    bits = losses.twinx()
    entries = [*_draw_losses(losses, curves), *_draw_exposures(bits, curves)]
    losses.set_xlabel(curves.over)
    losses.set_ylabel(f"loss ({curves.loss_unit})", color=QUIET)
    losses.tick_params(axis="y", colors=QUIET)
    bits.set_ylabel("exposure (bits)")
    losses.set_title("Loss, and how far the secrets stand out from those they could have been", fontsize=11)
    for axes in (losses, bits):
        axes.spines["top"].set_visible(False)
        axes.margins(x=0.02)
    lines = (*curves.planted.values(), curves.training, curves.validation)
    if curves.over == "step" or max(place for line in lines for place, _ in line) >= 3:
        from matplotlib.ticker import MaxNLocator

        losses.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, entries)
    return figure


def _draw_losses(axes: Axes, curves: TrainingCurves) -> list[Entry]:
    found: list[Entry] = []
    for name, points in (("training", curves.training), ("validation", curves.validation)):
        if points:
            # A lone point is no line: it gets a mark.
            dot: dict[str, Any] = {"marker": "."} if len(points) == 1 else {}
            handle = axes.plot(*_columns(points), color=_LOSSES[name], linewidth=1.8, zorder=2, **dot)
            found.append((handle[0], f"{name} loss"))
    if len(curves.validation) > 1:
        place, value = min(curves.validation, key=lambda point: (point[1], point[0]))
        axes.axvline(place, color=QUIET, linewidth=0.8, linestyle=":", zorder=1)
        rim: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": _LOSSES["validation"]}
        ring = axes.plot([place], [value], "o", markersize=9, markeredgewidth=1.6, **rim)
        found.append((ring[0], f"lowest validation loss: {value:.3g} at {curves.over} {place:.4g}"))
    return found


def _draw_exposures(axes: Axes, curves: TrainingCurves) -> list[Entry]:
    found: list[Entry] = []
    for number, (times, points) in enumerate(sorted(curves.planted.items(), reverse=True)):
        look: dict[str, Any] = {"color": colour(number), "marker": marker(number)}
        often = "once" if times == 1 else f"{times} times"
        found.append((_draw_line(axes, points, look), f"exposure, planted {often}"))
        bounds = [point for point in points if point[0] in curves.bounds.get(times, ())]
        if bounds:
            axes.plot(*_columns(bounds), **hollow(**look, markersize=5, markevery=_stride(points)))
    if curves.controls:
        handle = _draw_line(axes, curves.controls, {"color": "black", "linestyle": ":", "marker": "."})
        found.append((handle, "exposure, never planted"))
    if any(curves.bounds.values()):
        found.append(bound_entry(axes))
    named = chance_levels([curves.log2_size])
    for (name, height), style in zip(sorted(named.items(), key=lambda item: item[1]), _LEVELS, strict=True):
        handle = axes.axhline(height, color=QUIET, linewidth=1, linestyle=style, zorder=1)
        found.append((handle, f"exposure, {name}"))
    axes.set_ylim(0, max(named.values()) * 1.05)
    return found


def _draw_line(axes: Axes, points: Sequence[Point], look: dict[str, Any]) -> Any:
    return axes.plot(*_columns(points), linewidth=1.8, markersize=5, markevery=_stride(points), zorder=3, **look)[0]


def _stride(points: Sequence[Point]) -> int:
    """Return n such that marks at every n-th point are not crowded."""
    return max(1, len(points) // CROWD)


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [place for place, _ in points], [value for _, value in points]
