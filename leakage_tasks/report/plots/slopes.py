"""Exposure of each canary from run to run, as lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.load.format import NEVER
from leakage_tasks.report.plots.style import Entry, colour, legend_below, marker, new_figure, plain, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bits = Mapping[str, Sequence[float]]
"""Exposures by canary, one per run."""


def draw_slopes(names: Sequence[str], groups: Mapping[str, Bits]) -> Figure:
    """Draw a line per canary over the runs in ``names``, a colour per group and the group's mean; controls are grey.

    Raises OptionError without exposures.
    """
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
    axes.set_xticks(positions, [plain(name) for name in names])
    axes.set(xlim=(-0.2, len(names) - 0.8), ylim=(0, None), ylabel="exposure (bits)")
    tidy(axes)
    legend_below(figure, entries)
    return figure
