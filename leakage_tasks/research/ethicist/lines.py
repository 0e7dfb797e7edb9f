"""What the figures of Ethicist share: three methods along an axis, slopes, the table and the plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.guesses import (
    Contrast,
    Measure,
    Side,
    contrast,
    difference,
    early_stop,
    every,
    measured,
    recall,
)
from leakage_tasks.research.ethicist.settings import SMOOTH, UNTUNED, by_setting, set_up
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

ETHICIST = "Ethicist"
METHODS = {
    "Perplexity": (UNTUNED, "perplexity"),
    "Comparing (LM)": (UNTUNED, "comparing_lm"),
    ETHICIST: (SMOOTH, "calibrated"),
}
"""Setting and confidence of the three methods that the figures compare."""
OTHERS = [method for method in METHODS if method != ETHICIST]
MEASURES: dict[str, Callable[[str, str], Measure]] = {"recall": recall, "early stop": early_stop}
Look = Callable[[str, str, Any], Side]
"""Trials and measure of a method, for ``recall`` or ``early stop``, at a place of the horizontal axis."""


def swept(trials: Sequence[StudyTrial], view: str, sweep: str) -> tuple[list[int], Look]:
    """The places of a sweep, in order, the run's own among them, and how to look at one."""
    config = trials[0].config
    own = {"prefix": None, "suffix": trials[0].result["suffix"], "samples": config["samples"]}[view]
    places = sorted({*config["sweeps"][sweep], *([] if own is None else [own])})
    settings = by_setting(trials)

    def side(method: str, what: str, place: int) -> Side:
        setting, confidence = METHODS[method]
        name = f"{view}_{place}" if f"{view}_{place}" in trials[0].result["views"] else HEADLINE
        return settings[setting], MEASURES[what](confidence, name)

    return places, side


def slope(method: str, what: str, places: Sequence[int], side: Look) -> Contrast:
    """The least-squares slope of a figure over ``places``."""
    return contrast(*_line(method, what, places, side, 1.0))


def slopes(one: str, other: str, places: Sequence[int], side: Look) -> Contrast:
    """How much steeper recall_early_stop rises with one method than with another."""
    return contrast(*_line(one, "early stop", places, side, 1.0), *_line(other, "early stop", places, side, -1.0))


def _line(method: str, what: str, places: Sequence[int], side: Look, sign: float) -> list[Any]:
    """The terms of the least-squares slope over ``places``."""
    middle = fmean(places)
    spread = sum((place - middle) ** 2 for place in places)
    return [(sign * (place - middle) / spread, *side(method, what, place)) for place in places]


def best(places: Sequence[Any], side: Look) -> list[Claim]:
    """The claims that Ethicist has more than the others everywhere."""
    return [
        every(
            f"Ethicist does best everywhere on {what}",
            {
                f"{place}, {other}": difference(side(ETHICIST, what, place), side(other, what, place))
                for place in places
                for other in OTHERS
            },
        )
        for what in MEASURES
    ]


def report(
    axis: str,
    places: Sequence[Any],
    side: Look,
    claims: Sequence[Claim],
    trials: Sequence[StudyTrial],
    plan: StudyPlan,
    *notes: str,
) -> Report:
    """The table of all methods at all places of the horizontal axis."""
    rows: list[TableRow] = [
        {
            "method": method,
            axis: place,
            "published": Published(None),
            **{what: measured(*side(method, what, place)) for what in MEASURES},
        }
        for method in METHODS
        for place in places
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def plotter(axis: str, words: str, logarithmic: bool = False) -> Callable[[Report, Path], None]:
    """A plot of both figures against a column of the table, a line a method, with standard deviations."""

    def plot(report: Report, path: Path) -> None:
        from leakage_tasks.research.ethicist.plots import plot_lines

        panels = {
            what: {
                method: [_point(row[axis], row[what]) for row in report.rows if row["method"] == method]
                for method in METHODS
            }
            for what in MEASURES
        }
        plot_lines(panels, words, path, logarithmic=logarithmic)

    return plot


def _point(place: Any, cell: Any) -> tuple[Any, float, float]:
    assert isinstance(cell, Measured)
    return place, cell.value, cell.sd or 0.0
