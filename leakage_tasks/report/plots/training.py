"""Plot of losses and exposure over one run (The Secret Sharer, Figure 4)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.training_log import Point, TrainingCurves
from leakage_tasks.report.plots.exposure import chance_levels
from leakage_tasks.report.plots.style import (
    DASHED,
    QUIET,
    WHOLE,
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
"""Maximum number of points of a curve with a mark at each point."""
_LOSSES = {"training": "#999999", "validation": "#333333"}
_LEVELS: tuple[Any, ...] = ((0, (1, 3)), DASHED)


def draw_training(curves: TrainingCurves) -> Figure:
    """Draw losses in grey on the left axis, and exposure on the right axis, a colour and mark per number of copies.

    Controls are black. Level lines show the mean exposure of secrets that were never shown, and log2|R|; a ring and a
    vertical line mark the lowest validation loss.
    """
    figure = new_figure(8, 5)
    losses = figure.add_subplot()
    bits = losses.twinx()
    entries = [*_draw_losses(losses, curves), *_draw_exposures(bits, curves)]
    losses.set_xlabel(curves.over)
    losses.set_ylabel(f"loss ({curves.loss_unit})", color=QUIET)
    losses.tick_params(axis="y", colors=QUIET)
    bits.set_ylabel("exposure (bits)")
    losses.set_title("Loss and exposure over training", fontsize=11)
    for axes in (losses, bits):
        axes.spines["top"].set_visible(False)
        axes.margins(x=0.02)
    lines = (*curves.planted.values(), curves.training, curves.validation)
    if curves.over == "step" or max(position for line in lines for position, _ in line) >= 3:
        from matplotlib.ticker import MaxNLocator

        losses.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend_below(figure, entries)
    return figure


def _draw_losses(axes: Axes, curves: TrainingCurves) -> list[Entry]:
    entries: list[Entry] = []
    for name, points in (("training", curves.training), ("validation", curves.validation)):
        if points:
            # A single point gives no line, so it gets a mark.
            dot: dict[str, Any] = {"marker": "."} if len(points) == 1 else {}
            handle = axes.plot(*_columns(points), color=_LOSSES[name], linewidth=1.8, zorder=2, **dot)
            entries.append((handle[0], f"{name} loss"))
    if len(curves.validation) > 1:
        position, value = min(curves.validation, key=lambda point: (point[1], point[0]))
        axes.axvline(position, color=QUIET, linewidth=0.8, linestyle=":", zorder=1)
        rim: dict[str, Any] = {"markerfacecolor": "none", "markeredgecolor": _LOSSES["validation"]}
        ring = axes.plot([position], [value], "o", markersize=9, markeredgewidth=1.6, **rim)
        entries.append((ring[0], f"lowest validation loss: {value:.3g} at {curves.over} {position:.4g}"))
    return entries


def _draw_exposures(axes: Axes, curves: TrainingCurves) -> list[Entry]:
    entries: list[Entry] = []
    tiers = sorted(curves.planted, key=lambda tier: -1 if tier is None else tier, reverse=True)
    for number, tier in enumerate(tiers):
        points = curves.planted[tier]
        look: dict[str, Any] = {"color": colour(number), "marker": marker(number)}
        entries.append((_draw_line(axes, points, look), f"exposure, {planted_words(tier)}"))
        bounds = _bounded_marks(points, curves.bounds.get(tier, ()))
        if bounds:
            axes.plot(*_columns(bounds), **hollow(**look, markersize=5))
    if curves.controls:
        handle = _draw_line(axes, curves.controls, {"color": "black", "linestyle": ":", "marker": "."})
        entries.append((handle, "exposure, never planted"))
    if any(curves.bounds.values()):
        entries.append(bound_entry(axes))
    named = chance_levels([curves.log2_size])
    for (name, height), style in zip(sorted(named.items(), key=lambda item: item[1]), _LEVELS, strict=True):
        handle = axes.axhline(height, color=QUIET, linewidth=1, linestyle=style, zorder=1)
        entries.append((handle, f"exposure, {name}"))
    axes.set_ylim(0, max(named.values()) * 1.05)
    return entries


def _draw_line(axes: Axes, points: Sequence[Point], look: dict[str, Any]) -> Any:
    look = {**look, **WHOLE, "markersize": 5, "markevery": _stride(points)}
    return axes.plot(*_columns(points), linewidth=1.8, zorder=3, **look)[0]


def _bounded_marks(points: Sequence[Point], bounds: Collection[float]) -> list[Point]:
    """Return the marked points for which a lower bound lies between them and the next mark, or at them."""
    stride = _stride(points)
    marks = range(0, len(points), stride)
    return [points[at] for at in marks if any(position in bounds for position, _ in points[at : at + stride])]


def _stride(points: Sequence[Point]) -> int:
    """Return n such that marks at every n-th point are not crowded."""
    return max(1, len(points) // CROWD)


def _columns(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    return [position for position, _ in points], [value for _, value in points]
