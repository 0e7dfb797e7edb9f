"""Pictures of findings, as PNG files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from leakage_tasks.errors import OptionError
from leakage_tasks.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CHANCE = 1 / math.log(2)
"""Mean exposure in bits of a secret the model never saw, for a large space: log2|R| - log2(|R|!)/|R|."""

# Okabe and Ito's colours, told apart by colour-blind readers too, each with a marker of its own.
_STYLES = [("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P")]
_QUIET = "#555555"


@dataclass(frozen=True)
class EpochExposure:
    """Exposure in bits of one canary after one epoch; ``repetitions`` is 0 for a control.

    ``log2_size`` is log2|R|, the most there can be.
    """

    epoch: int
    canary: str
    repetitions: int
    exposure: float
    log2_size: float


def plot_exposure_by_epoch(history: Iterable[EpochExposure], path: str | Path) -> Path:
    """Draw exposure over training: a line a planted canary, the controls as their mean within their range.

    Two lines to read it by: chance (1.44 bits, what a secret scores that was never shown) and log2|R|, the
    upper bound. Returns the path of the PNG; raises OptionError without anything to draw.
    """
    points = sorted(history, key=lambda point: (point.repetitions, point.canary, point.epoch))
    if not points:
        raise OptionError("no exposure to draw: the history is empty")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    _draw_bounds(axes, points)
    _draw_planted(axes, [point for point in points if point.repetitions > 0])
    _draw_controls(axes, [point for point in points if point.repetitions == 0])
    _label(axes, points)
    with replacing(path) as beside:
        figure.savefig(beside, format="png", dpi=150)
    return Path(path)


def _draw_bounds(axes: Axes, points: Sequence[EpochExposure]) -> None:
    bounds = [(size, f"the most there is: log₂|R| = {size:.1f}") for size in {point.log2_size for point in points}]
    for height, text in [*bounds, (CHANCE, f"chance: {CHANCE:.2f}")]:
        axes.axhline(height, color=_QUIET, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.text(1.02, height, text, transform=axes.get_yaxis_transform(), va="center", color=_QUIET, fontsize=9)


def _draw_controls(axes: Axes, points: Sequence[EpochExposure]) -> None:
    by_epoch: dict[int, list[float]] = {}
    for point in points:
        by_epoch.setdefault(point.epoch, []).append(point.exposure)
    if not by_epoch:
        return
    epochs = sorted(by_epoch)
    count = len({point.canary for point in points})
    low, high = ([pick(by_epoch[epoch]) for epoch in epochs] for pick in (min, max))
    means = [sum(by_epoch[epoch]) / len(by_epoch[epoch]) for epoch in epochs]
    axes.plot(epochs, means, color="black", linestyle=":", linewidth=2, label=f"never shown, mean of {count}")
    axes.fill_between(epochs, low, high, color="#999999", alpha=0.3, linewidth=0, label="never shown, range")


def _draw_planted(axes: Axes, points: Sequence[EpochExposure]) -> None:
    repetitions = sorted({point.repetitions for point in points}, reverse=True)
    lines: dict[str, list[EpochExposure]] = {}
    for point in points:
        lines.setdefault(point.canary, []).append(point)
    labelled: set[int] = set()
    for line in sorted(lines.values(), key=lambda line: -line[0].repetitions):
        times = line[0].repetitions
        colour, marker = _STYLES[repetitions.index(times) % len(_STYLES)]
        label = None if times in labelled else "planted once" if times == 1 else f"planted {times} times"
        labelled.add(times)
        epochs = [point.epoch for point in line]
        exposures = [point.exposure for point in line]
        axes.plot(epochs, exposures, color=colour, marker=marker, markersize=5, linewidth=1.8, label=label, zorder=3)


def _label(axes: Axes, points: Sequence[EpochExposure]) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("epoch")
    axes.set_ylabel("exposure (bits)")
    axes.set_title("How far each secret stands out from those it could have been", fontsize=11)
    axes.set_ylim(0, max(*(point.log2_size for point in points), CHANCE) * 1.1)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
