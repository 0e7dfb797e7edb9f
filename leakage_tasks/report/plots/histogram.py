"""Distribution of the costs of random fillings, with the secret's position in it (The Secret Sharer, Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.report.plots.style import QUIET, SMALL, STRESS, Entry, legend_below, new_figure, plain, tidy
from leakage_tasks.stats.skew_normal import SkewNormalFit, fit_skew_normal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6
"""Maximum number of panels of a figure."""
_BARS, _CURVE, _AREA = "#BBBBBB", "#0072B2", "#56B4E9"


@dataclass(frozen=True)
class Costs:
    """One canary: the costs of random fillings and of its secret, and its exposure according to the attack."""

    name: str
    """The canary's id, preceded by its run's name if there are several runs."""
    planting: str
    """The number of copies in words."""
    costs: Sequence[float]
    """The costs of random fillings in bits, ascending."""
    secret_cost: float
    """The cost of the secret in bits."""
    exposure: float
    """The exposure in bits according to the attack."""
    method: str
    """The method of the attack's exposure."""
    log2_size: float
    """log2|R|, the maximum exposure."""
    words: str
    """The name of the cost, for the horizontal axis."""


def draw_histogram(panels: Sequence[Costs]) -> Figure:
    """Draw a panel per canary: the distribution of the costs, a skew-normal fit, and a line at the secret's cost.

    The area left of the line is 2^−exposure, extrapolated from the fit. The text above the panel states it with the
    exposure according to the attack and the fit's Kolmogorov-Smirnov test. Raises OptionError for no canary or for
    more than six.
    """
    if not 0 < len(panels) <= MOST:
        raise OptionError(f"{len(panels)} canaries to draw: give 1 to {MOST}")
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    rows = -(-len(panels) // columns)
    figure = new_figure(max(5.6, 4.3 * columns), 4.0 * rows + 0.4)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    legend_below(figure, [entry for axes, panel in zip(grid, panels, strict=False) for entry in _draw(axes, panel)])
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    return figure


def _draw(axes: Axes, panel: Costs) -> list[Entry]:
    costs = np.asarray(panel.costs)
    bars: Any = axes.hist(costs, bins=_edges(costs), density=True, color=_BARS, zorder=1)[2]
    entries: list[Entry] = [(bars[0], "random fillings")]
    try:
        fit = fit_skew_normal(panel.costs)
        entries += _draw_fit(axes, fit, panel)
        judged = _words_of_fit(panel, fit)
    except OptionError as error:
        judged = [("not extrapolated", STRESS), (f"no fit: {str(error).partition(':')[0]}", STRESS)]
    line = axes.axvline(panel.secret_cost, color=STRESS, linewidth=2, zorder=4)
    axes.set(xlabel=panel.words, ylabel="density (per bit)", ylim=(0, axes.get_ylim()[1] * 1.02))
    tidy(axes)
    _describe(axes, panel, judged)
    return [*entries, (line, "the canary's own secret")]


def _edges(costs: FloatArray) -> list[float]:
    """Return the edges of 8 to 60 bars by the data's spread (Freedman and Diaconis), or of one bar for equal costs."""
    if costs[0] == costs[-1]:
        return [float(costs[0]) - 0.5, float(costs[0]) + 0.5]
    quarter, most = np.subtract(*np.quantile(costs, [0.75, 0.25])), costs[-1] - costs[0]
    width = 2 * quarter / len(costs) ** (1 / 3)
    number = int(np.clip(np.ceil(most / width), 8, 60)) if width > 0 else 60
    return list(np.linspace(costs[0], costs[-1], number + 1))


def _draw_fit(axes: Axes, fit: SkewNormalFit, panel: Costs) -> list[Entry]:
    """Draw the fit's density over all costs, and the area of the costs up to the secret's."""
    low, high = min(panel.secret_cost, panel.costs[0]), max(panel.secret_cost, panel.costs[-1])
    room = (high - low) * 0.04
    grid = np.linspace(low - room, high + room, 600)
    curve = axes.plot(grid, fit.density(grid), color=_CURVE, linewidth=2, zorder=3)[0]
    left = np.append(grid[grid < panel.secret_cost], panel.secret_cost)
    area = axes.fill_between(left, fit.density(left), color=_AREA, alpha=0.6, linewidth=0, zorder=2)
    return [(curve, "skew-normal fit"), (area, "fillings with at most the secret's cost, by the fit")]


def _describe(axes: Axes, panel: Costs, judged: Iterable[tuple[str, str]]) -> None:
    """Write the panel's results above it, one line each, so that no text covers the curve."""
    least = "at least " * (panel.method == "lower_bound")
    how = panel.method.replace("_", " ")
    most = f"{'the space has' if panel.method == 'extrapolated' else 'of at most'} {panel.log2_size:.1f}"
    lines: list[dict[str, Any]] = [
        {"text": f"{plain(panel.name)}, {panel.planting}", "fontweight": "bold"},
        {"text": f"exposure: {least}{panel.exposure:.1f} bits ({how}), {most}"},
        *({"text": text, "color": hue} for text, hue in judged),
    ]
    for number, line in enumerate(lines, 1):
        above = (0, 4 + (len(lines) - number) * SMALL * 1.45)
        units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(xy=(0, 1), xytext=above, fontsize=SMALL, **units, **line)


def _words_of_fit(panel: Costs, fit: SkewNormalFit) -> list[tuple[str, str]]:
    """Describe the extrapolated exposure and the test of the fit, each with a colour."""
    bits = fit.exposure(panel.secret_cost)
    beyond = ", beyond that bound" * (bits > panel.log2_size)
    hue = STRESS if fit.rejected else QUIET
    test = f"fit {'' if fit.rejected else 'not '}rejected: KS D = {fit.statistic:.3f}, p = {fit.p_value:.3f}"
    result = "no extrapolation from this fit" if fit.rejected else f"extrapolated: {bits:.1f} bits{beyond}"
    return [(result, STRESS if fit.rejected else "black"), (f"{test}, n = {fit.count:,}", hue)]
