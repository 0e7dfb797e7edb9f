"""Share of memorized windows by length of the prefix, of documents and of controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from leakage_tasks.attacks.suffix.finding import SuffixFinding
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.memorization_values import NEARNESS, exact
from leakage_tasks.report.plots import style
from leakage_tasks.stats.clusters import clustered_share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST = 6
"""Maximum number of runs; each has two or three lines."""
APART = 0.008
"""Horizontal distance of neighbouring lines, as a share of the axis, so that equal shares remain visible."""


@dataclass(frozen=True)
class PrefixCurve:
    """One line: the shares of windows by length of the prefix, in ascending order, with intervals by document."""

    name: str
    shares: Sequence[style.LengthShare]


def prefix_curves(name: str, findings: Sequence[SuffixFinding], distance: str = "tokens") -> list[PrefixCurve]:
    """Return the curves of exact and approximate memorization, and of the approximate memorization of controls.

    Args:
        name: Name of the run, or an empty text.
        findings: The findings of a run of ``memorization``.
        distance: Unit of the edit distance, ``tokens`` or ``characters``.

    Returns:
        Two curves, or three if the run has controls.
    """
    near = NEARNESS[distance]
    parts = {"exact": (exact, False), "approximate": (near, False), "approximate, controls": (near, True)}
    curves = []
    for words, (value, control) in parts.items():
        values: dict[int, list[tuple[float, int]]] = {}
        for finding in findings:
            for view in finding.views.values() if finding.control is control else ():
                share = None if view.likeness is None else value(view.likeness)
                if share is not None:
                    document = finding.pair if finding.document is None else finding.document
                    values.setdefault(view.prefix_length, []).append((share, document))
        if values:
            shares = [_share(prefix, values[prefix]) for prefix in sorted(values)]
            curves.append(PrefixCurve(f"{name}: {words}" if name else words, shares))
    return curves


def _share(prefix: int, values: Sequence[tuple[float, int]]) -> style.LengthShare:
    hits, documents = zip(*values, strict=True)
    return style.LengthShare(prefix, sum(hits) / len(hits), *clustered_share(hits, documents))


def draw_prefixes(curves: Sequence[PrefixCurve]) -> Figure:
    """Draw each curve with its intervals. Raises OptionError without curves and for too many runs."""
    if not curves:
        raise OptionError("no window to draw: all windows were left out: run memorization on other documents")
    if len(curves) > 3 * MOST:
        raise OptionError(f"{len(curves)} lines are too many to distinguish: give {MOST} runs or fewer")
    figure = style.new_figure(7.2, 4.8)
    axes = figure.add_subplot()
    lengths = {share.length for curve in curves for share in curve.shares}
    apart = APART * (max(lengths) - min(lengths) or 1)
    middle = (len(curves) - 1) / 2
    entries = [_draw(axes, curve, number, (number - middle) * apart) for number, curve in enumerate(curves)]
    style.legend_below(figure, entries)
    axes.set(xlabel="tokens of the prefix", ylabel="share of windows", ylim=(0, None))
    axes.set_xticks(sorted(lengths))
    axes.grid(axis="y", alpha=0.3)
    style.tidy(axes)
    return figure


def _draw(axes: Axes, curve: PrefixCurve, number: int, shift: float) -> style.Entry:
    places = [share.length + shift for share in curve.shares]
    values = [share.value for share in curve.shares]
    ends = tuple(zip(*map(style.reach, curve.shares), strict=True))
    look: dict[str, Any] = {"color": style.colour(number), "marker": style.marker(number), "capsize": 3}
    drawn = axes.errorbar(places, values, yerr=ends, linestyle=style.line(number), linewidth=1.8, **look)
    drawn.lines[0].set(**style.WHOLE)
    return drawn.lines[0], style.plain(curve.name)
