"""Figures 2 and 3 of Elmahdy and Salem 2023: Tables 2 to 4 as bars by canary and repetitions, one per data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from leakage_tasks.canaries.presets.mix_and_match import TABLE_1
from leakage_tasks.report.plots.style import colour, legend_below, new_figure, save
from leakage_tasks.research.classifiers.experiment import PAPER_YELP, YELP, ClassifierExperiment, at_scale, differences
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.group_tests import decide, ranked
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Report, TableRow, point_of
from leakage_tasks.research.mix_and_match.figures import REPETITIONS
from leakage_tasks.research.mix_and_match.published import TABLES
from leakage_tasks.research.mix_and_match.tables import (
    MORE_CANARIES,
    canary_row,
    categories,
    control_line,
    corresponding_targets,
    generator_claims,
    register_study,
    set_up,
    values,
)
from leakage_tasks.research.mix_and_match.trials import PAPER, SMALL, victims

FIVE = replace(SMALL, classes=PAPER_YELP.classes)
"""Docstrings in as many classes as Yelp has."""
PANELS = {
    "(a) candidates, Frankenstein": "Frank. K",
    "(b) rank, exhaustive search": "all beam",
    "(c) rank, Frankenstein": "Frank. beam",
    "(d) rank, language model": "LM beam",
}
EQUAL_FACTOR = 2.0
"""Ranks within this factor of each other count as equal."""
ALIKE = PaperClaim("both generators retrieve tokens equally well", takes=MORE_CANARIES)
RELATIVE = PaperClaim(
    "relative to the language model, the Frankenstein model is better for random canaries", takes=MORE_CANARIES
)


def bar_trials(plan: StudyPlan, *, paper: ClassifierExperiment, small: ClassifierExperiment) -> list[Config]:
    """List the trials of Tables 2, 3 and 4 on one data set."""
    ground = {"ground": small.config()} if plan.scale == "small" else {}
    return [config for copies in REPETITIONS for config in victims(plan, paper, repetitions=copies, **ground)]


def bar_report(
    trials: Sequence[StudyTrial], plan: StudyPlan, *, paper: ClassifierExperiment, small: ClassifierExperiment
) -> Report:
    """Report candidates needed and pruned rank by canary and repetitions, with the published ones."""
    by_copies = grouped(trials, lambda config: int(config["repetitions"]))
    ground = at_scale(plan.scale, small, paper)
    data, names = paper.data, list(trials[0].result["ranks"])
    published_targets = corresponding_targets(TABLES[5])
    rows: list[TableRow] = []
    for name in names:
        target = published_targets.get(name, name)
        for copies in REPETITIONS:
            group = by_copies[ground.copies(copies)]
            rows.append({"copies": copies, **canary_row(group, name, target, TABLES[copies][target][data])})
    claims = [*generator_claims(trials, names, data), _kinds_claim(trials, names, data), _alike(trials, names, data)]
    different = (
        differences(ground, paper) + set_up(plan, paper)[len(differences(at_scale(plan.scale, SMALL, paper), paper)) :]
    )
    same = "" if plan.scale == "paper" else "; our canaries are compared with published ones of their kind"
    notes = [f"Columns with * are published values from Tables 2 to 4{same}.", *different, categories(plan)]
    return Report(list(rows[0]), rows, claims, [*notes, control_line(trials)])


def _kinds_claim(trials: Sequence[StudyTrial], names: Sequence[str], data: str) -> Claim:
    """Return the claim that the Frankenstein model, relative to the language model, is better on random canaries."""
    kinds = {canary.target: canary.kind for canary in (*TABLE_1, *SMALL_TABLE)}
    shares = {
        name: math.log2(fmean(values(trials, "frankenstein", 0, name)) / fmean(values(trials, "pretrained", 0, name)))
        for name in names
    }
    random, organic = (
        [share for name, share in shares.items() if kinds[name] == kind] for kind in ("random", "organic")
    )
    words = RELATIVE.test(data)
    unit = " (log2 of its candidates over the language model's, random against organic)"
    return ranked(words, random, organic, above=False, digits=2, unit=unit)


def _alike(trials: Sequence[StudyTrial], names: Sequence[str], data: str) -> Claim:
    """Return the claim that both generators do equally well after pruning, by Student's interval of the mean ratio."""
    from scipy import stats

    words = ALIKE.test(f"ranks within a factor of two, {data}")
    means = (
        [fmean(values(trials, generator, 1, name)) for name in names] for generator in ("frankenstein", "pretrained")
    )
    shares = [math.log2(one / two) for one, two in zip(*means, strict=True)]
    if len(shares) < 2:
        return Claim(words, None, "from one canary")
    reach = float(stats.t.ppf(0.975, len(shares) - 1)) * stdev(shares) / math.sqrt(len(shares))
    low, high = (2 ** (fmean(shares) + sign * reach) for sign in (-1, 1))
    evidence = f"mean ratio of ranks {2 ** fmean(shares):.2f} [{low:.2f}, {high:.2f}] n={len(shares)} canaries"
    inside, outside = low >= 1 / EQUAL_FACTOR and high <= EQUAL_FACTOR, high < 1 / EQUAL_FACTOR or low > EQUAL_FACTOR
    return Claim(words, decide(inside, outside), evidence)


def plot_bars(report: Report, path: Path) -> None:
    """Plot the figure's panels, with a group of bars per canary and a colour per repetitions; lines are intervals."""
    figure = new_figure(11.0, 8.0)
    targets = list(dict.fromkeys(str(row["target"]) for row in report.rows))
    for position, (title, column) in enumerate(PANELS.items(), 1):
        axes = figure.add_subplot(2, 2, position)
        for number, copies in enumerate(REPETITIONS):
            points = [point_of(row[column]) for row in report.rows if row["copies"] == copies]
            known = [(index, point) for index, point in enumerate(points) if point is not None]
            lefts = [index + (number - 1) * 0.27 for index, _ in known]
            heights = [point[0] for _, point in known]
            reach = [
                [max(0.0, point[0] - point[1]) for _, point in known],
                [max(0.0, point[2] - point[0]) for _, point in known],
            ]
            style: dict[str, Any] = {"width": 0.27, "color": colour(number), "label": f"{copies} repetitions"}
            axes.bar(lefts, heights, yerr=reach, error_kw={"elinewidth": 0.7}, **style)
        axes.set_yscale("symlog", linthresh=1)
        axes.set_title(title, fontsize=10)
        axes.set_xticks(range(len(targets)), [point.partition(" (")[0] for point in targets], rotation=45, ha="right")
        axes.grid(axis="y", alpha=0.3)
    # All panels have the same colours.
    handles, labels = axes.get_legend_handles_labels()
    legend_below(figure, zip(handles, labels, strict=True))
    save(figure, path)


for _number, _paper, _small in ((2, PAPER_YELP, FIVE), (3, PAPER, SMALL)):
    _of = "Yelp, in five classes" if _paper.data == YELP else "Reddit, in many classes"
    register_study(
        f"figure-{_number}",
        f"fourteen canaries by generator and repetitions: {_of}",
        f"Figure {_number}",
        partial(bar_trials, paper=_paper, small=_small),
        partial(bar_report, paper=_paper, small=_small),
        plot_bars,
    )
