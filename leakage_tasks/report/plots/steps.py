"""Plot of metrics over the steps of a training run, from the audits of its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.board.steps import Points, StepPanel
from leakage_tasks.report.load.format import ARROWS
from leakage_tasks.report.plots.style import Entry, colour, legend_below, marker, new_figure, plain, reach, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6
"""Maximum number of panels."""


def draw_steps(panels: Sequence[StepPanel]) -> Figure:
    """Draw each metric over steps with its 95 % intervals, and the controls in black, in one panel per metric.

    Only the first six panels are drawn. Raises OptionError without a value.
    """
    from matplotlib.ticker import MaxNLocator

    drawn = [panel for panel in panels if any(line.points for line in panel.lines)][:MOST]
    if not drawn:
        raise OptionError("no metric to draw: the audits have no value of a primary metric")
    across = min(2, len(drawn))
    down = -(-len(drawn) // across)
    figure = new_figure(6.4 * across, 3.4 * down + 0.6)
    entries: list[Entry] = []
    for index, panel in enumerate(drawn, 1):
        axes = figure.add_subplot(down, across, index)
        entries += _draw_panel(axes, panel)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    legend_below(figure, entries)
    return figure


def _draw_panel(axes: Axes, panel: StepPanel) -> list[Entry]:
    unit = f"{panel.unit}, " if panel.unit else ""
    better = f"{panel.direction} is better {ARROWS[panel.direction]}" if panel.direction else "no better side"
    axes.set(xlabel="step", ylabel=f"{unit}{better}")
    axes.set_title(plain(panel.title), fontsize=11)
    axes.grid(alpha=0.3)
    tidy(axes)
    entries: list[Entry] = []
    for number, line in enumerate(panel.lines):
        if line.points:
            look = {"color": colour(number), "marker": marker(number), "zorder": 3}
            entries.append((_draw_line(axes, line.points, look), plain(line.title)))
    if panel.controls:
        look = {"color": "black", "linestyle": ":", "marker": ".", "zorder": 2}
        entries.append((_draw_line(axes, panel.controls, look), "controls, never shown to the model"))
    ends = [end for points in (*(line.points for line in panel.lines), panel.controls) for end in _ends(points)]
    if min(ends) >= 0:
        axes.set_ylim(0, max(*ends, 1e-9) * 1.08)
    return entries


def _draw_line(axes: Axes, points: Points, look: dict[str, Any]) -> Any:
    steps, values = [step for step, _ in points], [value.value or 0.0 for _, value in points]
    low, high = zip(*(reach(value) for _, value in points), strict=True)
    style: dict[str, Any] = {"linewidth": 1.8, "markersize": 5, **look}
    if not any((*low, *high)):
        return axes.plot(steps, values, **style)[0]
    return axes.errorbar(steps, values, yerr=(low, high), elinewidth=1, capsize=3, **style)


def _ends(points: Points) -> list[float]:
    return [end for _, value in points for end in (value.value, value.low, value.high) if end is not None]
