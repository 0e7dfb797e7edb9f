"""Exposure and share extracted by number of copies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import CONTEXT, Finding
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import FEWEST
from leakage_tasks.metrics.extraction import extracted
from leakage_tasks.report.plots.exposure import exposure_axis
from leakage_tasks.report.plots.style import QUIET, WHOLE, Entry, colour, legend_below, marker, new_figure, plain, tidy
from leakage_tasks.stats.intervals import clopper_pearson

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT, RIGHT = 0.4, 0.28
"""Offset of canaries to the left, and of their mean to the right, as shares of a run's width."""
GOLDEN = (math.sqrt(5) - 1) / 2
MOST_RUNS = 12
"""Maximum number of runs; a reader cannot distinguish the marks of more."""
USUAL = math.log2(20)
"""Exposure in bits that one in twenty secrets exceeds by chance: x or more has probability 2^−x."""
GREY = "#DFDFDF"
WIDEST = 7.0
"""Largest width in inches of a panel that shares its row with another."""


ABSENT, CONTEXT_ONLY, NATURAL_CONTROLS, NATURAL_SECRETS = -4, -3, -2, -1
"""Groups instead of a number of copies: training never read some planted canaries, or not in its loss, and the auditor
does not choose how often a natural secret occurs in the data."""
_GROUPS = {
    ABSENT: "absent",
    CONTEXT_ONLY: "context\nonly",
    NATURAL_CONTROLS: "natural,\ncontrols",
    NATURAL_SECRETS: "natural",
    0: "0 (never)",
}


class CanaryPoint(NamedTuple):
    """One canary's exposure in bits; ``bound`` is True for a lower bound, ``band`` holds the ends if only those are
    known."""

    canary: str
    repetitions: int
    exposure: float
    log2_size: float
    bound: bool = False
    band: tuple[float, float] | None = None


@dataclass(frozen=True)
class RunByRepetitions:
    """One run: its exposures, and by number of copies (0: controls) True for each secret extracted.

    Natural secrets and their controls have groups of their own.
    """

    name: str
    exposures: Sequence[CanaryPoint]
    extracted: Mapping[int, Sequence[bool]] = field(default_factory=dict)


def by_repetitions(name: str, exposure: Iterable[Finding], extraction: Iterable[Finding]) -> RunByRepetitions:
    """Group the findings of both tasks by number of copies; controls have 0."""
    points = [
        CanaryPoint(
            finding.canary,
            _group(finding),
            bits,
            finding.log2_size,
            finding.method == "lower_bound",
            finding.exposure_ends,
        )
        for finding in exposure
        if (bits := finding.exposure) is not None
    ]
    outcomes: dict[int, list[bool]] = {}
    for finding in extraction:
        if (right := extracted(finding)) is not None:
            outcomes.setdefault(_group(finding), []).append(right == 1)
    return RunByRepetitions(name, points, outcomes)


def draw_repetitions(runs: Sequence[RunByRepetitions], most: int | None = None) -> Figure:
    """Draw exposure by number of copies: a point per canary, the mean with its interval, a colour and mark per run.

    Controls are at 0. If the runs tested extraction, a second panel shows the share extracted with Clopper-Pearson
    intervals. Fewer than ten canaries have no interval. ``most`` limits the points of a group; a larger group shows
    evenly spaced ranks. Raises OptionError without exposures and extractions, and for more than twelve runs.
    """
    if not any(run.exposures or run.extracted for run in runs):
        raise OptionError("no exposure to draw: the runs contain no finding of canary_exposure: give other runs")
    if len(runs) > MOST_RUNS:
        raise OptionError(f"{len(runs)} runs are too many to distinguish: give {MOST_RUNS} or fewer")
    groups = sorted(
        {exposure.repetitions for run in runs for exposure in run.exposures} | {n for r in runs for n in r.extracted}
    )
    panels = any(bool(run.exposures) for run in runs) + any(bool(run.extracted) for run in runs)
    wide = len(groups) * max(0.6, 0.32 * len(runs)) + 0.8
    # Wide panels are arranged in a column.
    rows, columns = (panels, 1) if wide > WIDEST else (1, panels)
    figure = new_figure(min(20.0, (max(3.4, wide) + 1.2) * columns + 0.6), 4.0 * rows + 0.4)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    if any(run.exposures for run in runs):
        _draw_exposures(axes[0], runs, groups, most)
    if any(run.extracted for run in runs):
        _draw_extracted(axes[-1], runs, groups)
    names = [(axes[0].plot([], [], **_large_mark(number))[0], plain(run.name)) for number, run in enumerate(runs)]
    legend_below(figure, [*(names if len(runs) > 1 else []), *_legend_keys(axes[0], runs)])
    return figure


def _draw_exposures(axes: Axes, runs: Sequence[RunByRepetitions], groups: Sequence[int], most: int | None) -> None:
    for number, run in enumerate(runs):
        middle, width = _offset(number, len(runs))
        for index, times in enumerate(groups):
            points = sorted(exposure for exposure in run.exposures if exposure.repetitions == times)
            if points:
                _draw_group(axes, points, index + middle, width, number, most)
    every = [exposure for run in runs for exposure in run.exposures]
    exposure_axis(axes, [point.exposure for point in every], {point.log2_size for point in every})
    counts = [[sum(exposure.repetitions == times for exposure in run.exposures) for times in groups] for run in runs]
    axes.axhspan(0, USUAL, color=GREY, zorder=0)
    _ticks(axes, groups, counts)


def _offset(number: int, runs: int) -> tuple[float, float]:
    """Return the offset of a run's marks from the middle of their group, and the width of their spread."""
    width = 0.84 / runs
    return (number - (runs - 1) / 2) * width, width * 0.62


def _draw_group(
    axes: Axes, points: Sequence[CanaryPoint], middle: float, width: float, number: int, most: int | None
) -> None:
    """Draw a run's canaries of one group, and their mean to the right of them."""
    shown = _spaced(points, most or len(points))
    alpha = max(0.25, min(0.75, 12 / len(shown)))
    for bound in (False, True):
        dots = [(_jitter(n) * width * 0.8, point.exposure) for n, point in enumerate(shown) if point.bound == bound]
        positions = [middle - width * LEFT + jitter for jitter, _ in dots]
        look: dict[str, Any] = {"facecolors": "none"} if bound else {"edgecolors": "none"}
        look["edgecolors" if bound else "facecolors"] = colour(number)
        look |= {"marker": marker(number), "s": 22, "alpha": alpha, **WHOLE}
        axes.scatter(positions, [bits for _, bits in dots], zorder=2, **look)
    mean, least = fmean(point.exposure for point in points), any(point.bound for point in points)
    _summary(axes, middle + width * RIGHT, mean, _exposure_ends(points), number, least)


def _spaced(points: Sequence[CanaryPoint], most: int) -> Sequence[CanaryPoint]:
    """Return the middle of each of ``most`` equal parts by exposure, or all points if they are not more."""
    if len(points) <= most:
        return points
    ordered = sorted(points, key=lambda point: point.exposure)
    return [ordered[(2 * part + 1) * len(points) // (2 * most)] for part in range(most)]


def _exposure_ends(points: Sequence[CanaryPoint]) -> tuple[float, float] | None:
    """Return the ends of the mean's interval as in ``canary_exposure``, or None for too few canaries."""
    known = [
        aggregates.ExposureRange(
            *(point.band or (point.exposure, point.log2_size if point.bound else point.exposure)),
            largest=max(point.exposure, point.log2_size),
        )
        for point in points
    ]
    low, high = aggregates.LOG_T.low(known), aggregates.LOG_T.high(known)
    return None if low is None or high is None else (low, high)


def _summary(
    axes: Axes, position: float, value: float, ends: tuple[float, float] | None, number: int, least: bool = False
) -> None:
    """Draw a mean or share as a large mark, hollow for a lower bound (``least``), with its interval, if any."""
    if ends is not None:
        reach = [[max(0.0, value - ends[0])], [max(0.0, ends[1] - value)]]
        axes.errorbar([position], [value], yerr=reach, fmt="none", ecolor="black", capsize=4, linewidth=1.4, zorder=3)
    hollow = {"markerfacecolor": "white", "markeredgecolor": colour(number)} if least else {}
    axes.plot([position], [value], zorder=4, **{**_large_mark(number), **hollow})


def _large_mark(number: int) -> dict[str, Any]:
    rim = {"markersize": 9, "markeredgecolor": "black", "markeredgewidth": 1.2, "linestyle": "none"}
    return {"marker": marker(number), "color": colour(number), **rim, **WHOLE}


def _legend_keys(axes: Axes, runs: Sequence[RunByRepetitions]) -> list[Entry]:

    def mark(size: float, **look: Any) -> Any:
        return axes.plot([], [], "o", color=QUIET, markersize=size, **look)[0]

    bar = axes.errorbar([], [], yerr=[], fmt="none", ecolor="black", capsize=4, linewidth=1.4)
    large = axes.plot([], [], **{**_large_mark(0), "color": QUIET})[0]
    shares = any(run.extracted for run in runs)
    if not any(run.exposures for run in runs):
        return [(large, "share"), (bar, f"95 % interval: Clopper-Pearson; from {FEWEST} canaries on")]
    interval = "95 % interval: log-t" + ", of shares Clopper-Pearson" * shares + f"; from {FEWEST} canaries on"
    entries: list[Entry] = [(mark(4.5), "one canary")]
    if any(exposure.bound for run in runs for exposure in run.exposures):
        entries.append((mark(4.5, markerfacecolor="none"), "hollow: at least this value"))
    usual = axes.fill_between([], [], color=GREY)
    means = (large, "mean" + ", or share" * shares)
    return [*entries, means, (bar, interval), (usual, "19 of 20 secrets that were never shown")]


def _draw_extracted(axes: Axes, runs: Sequence[RunByRepetitions], groups: Sequence[int]) -> None:
    for number, run in enumerate(runs):
        shift, _ = _offset(number, len(runs))
        for index, times in enumerate(groups):
            tried = run.extracted.get(times, ())
            if tried:
                share = sum(tried) / len(tried)
                ends = clopper_pearson(sum(tried), len(tried)) if len(tried) >= FEWEST else None
                _summary(axes, index + shift, share, ends, number)
    axes.set(ylim=(-0.03, 1.03), ylabel="share extracted")
    _ticks(axes, groups, [[len(run.extracted.get(times, ())) for times in groups] for run in runs])


def _group(finding: Finding) -> int:
    if finding.kind == NATURAL:
        return NATURAL_SECRETS if finding.planted else NATURAL_CONTROLS
    if not finding.planted:
        return 0
    tier = finding.tier
    return ABSENT if tier is None else CONTEXT_ONLY if tier == CONTEXT else tier


def _jitter(number: int) -> float:
    """Return a number from −0.5 to 0.5 that spreads neighbours: multiples of the golden ratio."""
    return (0.5 + number * GOLDEN) % 1 - 0.5


def _ticks(axes: Axes, groups: Sequence[int], counts: Sequence[Sequence[int]]) -> None:
    labels = []
    for index, times in enumerate(groups):
        numbers = sorted({count[index] for count in counts if count[index]})
        count_text = (
            "" if not numbers else f"n = {numbers[0]}" if len(numbers) == 1 else f"n = {numbers[0]}–{numbers[-1]}"
        )
        labels.append(f"{_GROUPS.get(times, times)}\n{count_text}")
    axes.set_xticks(range(len(groups)), labels)
    axes.set(xlim=(-0.6, len(groups) - 0.4), xlabel="times planted")
    tidy(axes)
