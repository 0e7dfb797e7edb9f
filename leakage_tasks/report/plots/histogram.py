"""How costs of random fillings are distributed and where the secret lies among them (The Secret Sharer, Figure 2)."""

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
"""The most panels a figure holds."""
_BARS, _CURVE, _AREA = "#BBBBBB", "#0072B2", "#56B4E9"


@dataclass(frozen=True)
class Costs:
    """One canary: how random fillings and its own secret cost, and its exposure as it was found."""

    name: str
    """The canary, and which run it is of where there are several."""
    repetitions: int
    """How often it was planted; 0 for a control."""
    costs: Sequence[float]
    """Of random fillings, in bits, ascending."""
    own: float
    """The secret's."""
    exposure: float
    """In bits, as the attack found it."""
    method: str
    """How the exposure was got."""
    log2_size: float
    """log2|R|, the most there can be."""
    words: str
    """What the costs are."""


def draw_histogram(panels: Sequence[Costs]) -> Figure:
    """A panel a canary: the costs' distribution, a skew-normal fit, and a line where the secret lies.

    The area left of the line is 2^−exposure as extrapolated from the fit; it stands above the panel with the exposure
    that the attack found and with the fit's Kolmogorov-Smirnov test. Raises OptionError for none or more than six.
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
    line = axes.axvline(panel.own, color=STRESS, linewidth=2, zorder=4)
    axes.set(xlabel=panel.words, ylabel="density (per bit)", ylim=(0, axes.get_ylim()[1] * 1.02))
    tidy(axes)
    _describe(axes, panel, judged)
    return [*entries, (line, "the canary's own secret")]


def _edges(costs: FloatArray) -> list[float]:
    """Edges of the bars: by the data's own spread (Freedman and Diaconis), 8 to 60 of them."""
    if costs[0] == costs[-1]:
        return [float(costs[0]) - 0.5, float(costs[0]) + 0.5]
    quarter, most = np.subtract(*np.quantile(costs, [0.75, 0.25])), costs[-1] - costs[0]
    width = 2 * quarter / len(costs) ** (1 / 3)
    number = int(np.clip(np.ceil(most / width), 8, 60)) if width > 0 else 60
    return list(np.linspace(costs[0], costs[-1], number + 1))


def _draw_fit(axes: Axes, fit: SkewNormalFit, panel: Costs) -> list[Entry]:
    """The fit's density over all costs and the secret's, with the area of those no higher than that filled."""
    low, high = min(panel.own, panel.costs[0]), max(panel.own, panel.costs[-1])
    room = (high - low) * 0.04
    places = np.linspace(low - room, high + room, 600)
    curve = axes.plot(places, fit.density(places), color=_CURVE, linewidth=2, zorder=3)[0]
    left = np.append(places[places < panel.own], panel.own)
    area = axes.fill_between(left, fit.density(left), color=_AREA, alpha=0.6, linewidth=0, zorder=2)
    return [(curve, "skew-normal fit"), (area, "fillings as cheap as the secret, by the fit")]


def _describe(axes: Axes, panel: Costs, judged: Iterable[tuple[str, str]]) -> None:
    """What the panel shows, above it: line by line, so that nothing covers the curve."""
    times = panel.repetitions
    planted = "never planted" if not times else "planted once" if times == 1 else f"planted {times} times"
    least = "at least " * (panel.method == "lower_bound")
    how = panel.method.replace("_", " ")
    most = f"{'the space has' if panel.method == 'extrapolated' else 'of at most'} {panel.log2_size:.1f}"
    lines: list[dict[str, Any]] = [
        {"text": f"{plain(panel.name)}, {planted}", "fontweight": "bold"},
        {"text": f"exposure: {least}{panel.exposure:.1f} bits ({how}), {most}"},
        *({"text": text, "color": hue} for text, hue in judged),
    ]
    for number, line in enumerate(lines, 1):
        above = (0, 4 + (len(lines) - number) * SMALL * 1.45)
        units: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        axes.annotate(xy=(0, 1), xytext=above, fontsize=SMALL, **units, **line)


def _words_of_fit(panel: Costs, fit: SkewNormalFit) -> list[tuple[str, str]]:
    """What the fit says, and whether it may be believed; with colours."""
    bits = fit.exposure(panel.own)
    beyond = ", beyond that bound" * (bits > panel.log2_size)
    hue = STRESS if fit.rejected else QUIET
    test = f"fit {'' if fit.rejected else 'not '}rejected: KS D = {fit.statistic:.3f}, p = {fit.p_value:.3f}"
    said = "not to be extrapolated" if fit.rejected else f"extrapolated: {bits:.1f} bits{beyond}"
    return [(said, STRESS if fit.rejected else "black"), (f"{test}, n = {fit.count:,}", hue)]
