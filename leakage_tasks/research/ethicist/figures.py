"""Figures 3, 4, 5 and 8 of Zhang, Wen and Huang (2023): three methods by model size, lengths and draws.

The paper's source does not contain the plotted values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.report.plots.style import colour, line, marker, new_figure, save
from leakage_tasks.research.ethicist.experiment import ground_at
from leakage_tasks.research.ethicist.guesses import (
    MEASURES,
    MeasureContrast,
    Side,
    Term,
    above,
    contrast,
    difference,
    every,
    measured,
    more,
)
from leakage_tasks.research.ethicist.trials import (
    SMOOTH,
    UNTUNED,
    by_setting,
    each_seed,
    of_size,
    register_study,
    set_up,
    shortened,
    tuned,
    untuned,
)
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, Draw, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

ETHICIST = "Ethicist"
METHODS = {
    "Perplexity": (UNTUNED, "perplexity"),
    "Comparing (LM)": (UNTUNED, "comparing_lm"),
    ETHICIST: (SMOOTH, "calibrated"),
}
"""Setting and confidence of the three methods that the figures compare."""
OTHERS = [method for method in METHODS if method != ETHICIST]
SIZE = PaperClaim("larger models leak more")
BEST_BY_SIZE = PaperClaim("Ethicist does best at all sizes")
PREFIX = PaperClaim("extraction grows with the prefix")
BEST_BY_PREFIX = PaperClaim("Ethicist does best at all lengths")
FASTEST = PaperClaim("early stop grows fastest with Ethicist")
SUFFIX = PaperClaim("extraction falls as the suffix grows")
SLOWING = PaperClaim("it falls ever more slowly")
SLOWEST = PaperClaim("it falls most slowly with Ethicist")
FEW_DRAWS = PaperClaim("recall grows fast from 1 to 10 draws")
MANY_DRAWS = PaperClaim("Ethicist's recall still grows, slowly, up to 100")
Spread = tuple[Any, float, float]
"""Horizontal position (a number, or a name), value, and standard deviation."""


@dataclass(frozen=True)
class SweepCurves:
    """Values of three methods along the horizontal axis called ``axis``.

    ``at`` returns the trials of each setting at one of the ``places``, and the view of their findings to use.
    """

    axis: str
    places: Sequence[Any]
    at: Callable[[Any], tuple[Mapping[str, Sequence[StudyTrial]], str]]

    def side(self, method: str, what: str, position: Any) -> Side:
        """Return the trials and the measure of a method, for ``recall`` or ``early stop``, at a position."""
        (setting, confidence), (settings, view) = METHODS[method], self.at(position)
        return settings[setting], MEASURES[what](confidence, view)

    def slope(self, method: str, what: str, sign: float = 1.0) -> list[Term]:
        """Return the terms of the least-squares slope of a value over the positions."""
        middle = fmean(self.places)
        spread = sum((position - middle) ** 2 for position in self.places)
        return [(sign * (position - middle) / spread, *self.side(method, what, position)) for position in self.places]

    def steeper(self) -> dict[str, MeasureContrast]:
        """Return by how much recall_early_stop rises more steeply with Ethicist than with each other method."""
        terms, what = self.slope(ETHICIST, "early stop"), "early stop"
        return {f"than {other}": contrast(*terms, *self.slope(other, what, -1.0)) for other in OTHERS}

    def best(self, claim: PaperClaim) -> list[Claim]:
        """Return tests of the claim that Ethicist is better than the other methods at all positions."""
        return [
            every(
                claim.test(what),
                {
                    f"{position}, {other}": difference(
                        self.side(ETHICIST, what, position), self.side(other, what, position)
                    )
                    for position in self.places
                    for other in OTHERS
                },
            )
            for what in MEASURES
        ]

    def report(self, claims: Sequence[Claim], trials: Sequence[StudyTrial], plan: StudyPlan, *notes: str) -> Report:
        """Report all methods at all positions."""
        rows: list[TableRow] = [
            {
                "method": method,
                self.axis: position,
                "published": Published(None),
                **{what: measured(*self.side(method, what, position)) for what in MEASURES},
            }
            for method in METHODS
            for position in self.places
        ]
        return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def swept(trials: Sequence[StudyTrial], axis: str, view: str, sweep: str) -> SweepCurves:
    """Return curves over the positions of a sweep, in order, including the run's own."""
    config, result, settings = trials[0].config, trials[0].result, by_setting(trials)
    run_values = {"prefix": [], "suffix": [result["suffix"]], "samples": [config["samples"]]}[view]
    views = {position: f"{view}_{position}" for position in {*config["sweeps"][sweep], *run_values}}
    return SweepCurves(
        axis,
        sorted(views),
        lambda position: (settings, views[position] if views[position] in result["views"] else HEADLINE),
    )


def plotter(axis: str, words: str, logarithmic: bool = False) -> Draw:
    """Return a function that plots both values against a column, a line per method, with standard deviations."""

    def plot(report: Report, path: Path) -> None:
        panels = {
            what: {
                method: [_point(row[axis], row[what]) for row in report.rows if row["method"] == method]
                for method in METHODS
            }
            for what in MEASURES
        }
        plot_lines(panels, words, path, logarithmic=logarithmic)

    return plot


def _point(position: Any, cell: Any) -> Spread:
    assert isinstance(cell, Measured)
    return position, cell.value, cell.sd or 0.0


def plot_lines(
    panels: Mapping[str, Mapping[str, Sequence[Spread]]], words: str, path: Path, *, logarithmic: bool = False
) -> None:
    """Plot adjacent panels, a line per series, over one horizontal axis called ``words``; shares begin at 0."""
    figure = new_figure(9.0, 3.8)
    for axes, (title, series) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for number, (name, points) in enumerate(series.items()):
            positions, values, spreads = zip(*points, strict=True)
            style: dict[str, Any] = {"marker": marker(number), "linestyle": line(number), "color": colour(number)}
            axes.errorbar(positions, values, yerr=spreads, capsize=2, label=name, **style)
        if logarithmic:
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.set_xlabel(words)
        axes.set_ylabel(title)
        axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    save(figure, path)


main_trials = partial(each_seed, makers=(untuned, tuned))
"""List trials of the main model with and without Ethicist's prompt."""
prefix_trials = partial(each_seed, makers=[partial(shortened, with_prompt=prompt) for prompt in (False, True)])
"""A function that lists trials of the main model with and without Ethicist's prompt, after prefixes of several
lengths."""


def size_trials(plan: StudyPlan) -> list[Config]:
    """List trials of models of all sizes, with and without Ethicist's prompt."""
    pairs = product(ground_at(plan.scale).sizes, (False, True))
    return each_seed(plan, [partial(of_size, size=size, with_prompt=prompt) for size, prompt in pairs])


def figure_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall and early stop by model size."""
    sizes = list(dict.fromkeys(trial.config["size"] for trial in trials))
    settings = {size: by_setting([trial for trial in trials if trial.config["size"] == size]) for size in sizes}
    curves = SweepCurves("model", sizes, lambda size: (settings[size], HEADLINE))
    claims = []
    for method, what in product(METHODS, MEASURES):
        sides = {size: curves.side(method, what, size) for size in sizes}
        steps = {f"{large} over {small}": difference(sides[large], sides[small]) for small, large in pairwise(sizes)}
        claims.append(every(SIZE.test(f"{what} of {method}"), steps))
    return curves.report([*claims, *curves.best(BEST_BY_SIZE)], trials, plan, _draws(trials))


def figure_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall and early stop by the number of prefix tokens that the attacker has."""
    curves = swept(trials, "prefix", "prefix", "prefix_lengths")
    claims = [
        above(PREFIX.test(f"{what} of {method}"), contrast(*curves.slope(method, what)), "per token:")
        for method, what in product(METHODS, MEASURES)
    ]
    faster = every(FASTEST.test("per token"), curves.steeper())
    notes = [
        "The prompt was tuned with whole prefixes and is used unchanged with shorter prefixes; the paper does not say.",
        _draws(trials),
    ]
    return curves.report([*claims, *curves.best(BEST_BY_PREFIX), faster], trials, plan, *notes)


def figure_5(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall and early stop by the number of suffix tokens to extract."""
    curves = swept(trials, "suffix", "suffix", "suffix_lengths")
    lengths, side = curves.places, curves.side
    first, middle, last = lengths[0], lengths[len(lengths) // 2], lengths[-1]
    falls = [
        more(SUFFIX.test(f"{what} of {method}"), side(method, what, first), side(method, what, last))
        for method, what in product(METHODS, MEASURES)
    ]
    early, late = 1 / (middle - first), 1 / (last - middle)
    slows = [
        above(
            SLOWING.test(f"recall of {method} per token, beyond {middle} tokens against before"),
            contrast(
                (early, *side(method, "recall", first)),
                (-early - late, *side(method, "recall", middle)),
                (late, *side(method, "recall", last)),
            ),
            "less per token:",
        )
        for method in METHODS
    ]
    slowest = every(SLOWEST.test("recall_early_stop per token"), curves.steeper())
    return curves.report([*falls, *slows, slowest], trials, plan)


def figure_8(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall and early stop by the number of draws."""
    curves = swept(trials, "draws", "samples", "sample_counts")
    counts, side = curves.places, curves.side
    few = max((count for count in counts[:-1] if count <= 10), default=counts[0])
    first, last = counts[0], counts[-1]

    def grows(claim: PaperClaim, method: str, what: str, start: int, end: int) -> Claim:
        words = claim.test(f"{what} of {method} from {start} to {end} draws")
        return more(words, side(method, what, end), side(method, what, start))

    claims = [grows(FEW_DRAWS, method, "recall", first, few) for method in METHODS]
    claims += [grows(MANY_DRAWS, ETHICIST, what, few, last) for what in MEASURES]
    slower = contrast(
        (2.0, *side(ETHICIST, "recall", few)),
        (-1.0, *side(ETHICIST, "recall", first)),
        (-1.0, *side(ETHICIST, "recall", last)),
    )
    claims.append(above(MANY_DRAWS.test(f"less than from {first} to {few}"), slower, "recall, first gain − second"))
    return curves.report(claims, trials, plan)


def _draws(trials: Sequence[StudyTrial]) -> str:
    return f"{trials[0].config['samples']} suffixes are drawn after each prefix (the paper: 100)."


_plot_3 = plotter("model", "model, smallest first")
_plot_4 = plotter("prefix", "tokens of the prefix")
_plot_5 = plotter("suffix", "tokens of the suffix")
_plot_8 = plotter("draws", "draws", logarithmic=True)
register_study("figure-3", "model size", "Figure 3", size_trials, figure_3, _plot_3)
register_study("figure-4", "prefix length", "Figure 4", prefix_trials, figure_4, _plot_4)
register_study("figure-5", "suffix length", "Figure 5", main_trials, figure_5, _plot_5)
register_study("figure-8", "number of draws", "Figure 8 (Appendix C)", main_trials, figure_8, _plot_8)
