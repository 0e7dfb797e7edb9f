"""Exposure of each canary from run to run, as lines whose slope tells what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.compare.changes import NEVER
from leakage_tasks.report.plots.style import Entry, colour, legend_below, marker, new_figure, plain, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bits = Mapping[str, Sequence[float]]
"""By canary, its exposure in each run."""


def draw_slopes(names: Sequence[str], groups: Mapping[str, Bits]) -> Figure:
    """A line a canary over the runs called ``names``, a colour a group, its mean drawn over it; controls are grey.

    Raises OptionError without anything to draw.
    """
    if not any(groups.values()):
        raise OptionError("no exposure to draw: the runs hold none of a canary that all of them have")
    figure = new_figure(max(5.0, 2.2 * len(names) + 1.5), 4.8)
    axes = figure.add_subplot()
    places = range(len(names))
    entries: list[Entry] = []
    planted = [group for group in groups if group != NEVER]
    for group, own in groups.items():
        shade = "#777777" if group == NEVER else colour(planted.index(group))
        thin: dict[str, Any] = {"color": shade, "linewidth": 0.8, "alpha": max(0.15, min(0.6, 10 / len(own)))}
        for bits in own.values():
            axes.plot(places, bits, **thin)
        mark = "." if group == NEVER else marker(planted.index(group))
        means = [fmean(bits[place] for bits in own.values()) for place in places]
        line = axes.plot(places, means, color=shade, marker=mark, linewidth=2.2, zorder=3)[0]
        entries.append((line, f"{group}, each of {len(own)} and their mean"))
    axes.set_xticks(places, [plain(name) for name in names])
    axes.set(xlim=(-0.2, len(names) - 0.8), ylim=(0, None), ylabel="exposure (bits)")
    tidy(axes)
    legend_below(figure, entries)
    return figure
