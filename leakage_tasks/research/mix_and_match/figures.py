"""Figures 4, 5 and 6 of Elmahdy and Salem 2023: labels, position and length. Their values are not in the source.

"Candidates needed" is the rank of the secret token in the generator's list. The "pruned rank" is its rank by class loss
among these candidates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from leakage_tasks.canaries.presets.mix_and_match import PATTERNS, TABLE_1
from leakage_tasks.research.classifiers.experiment import PAPER_YELP
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.papers import NO_TEST, PaperClaim
from leakage_tasks.research.framework.plots import plotter
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow
from leakage_tasks.research.mix_and_match.tables import (
    categories,
    control_line,
    from_zero,
    register_study,
    set_up,
    values,
)
from leakage_tasks.research.mix_and_match.trials import GENERATORS, victims

REPETITIONS = (5, 25, 100)
POSITIONS = (1, 2, 3, 4, 5)
LABELS = PaperClaim("canaries that differ in one token are found far better with distinct labels", caveat=NO_TEST)
POSITION = PaperClaim("no position is easiest for all canaries", caveat=f"{NO_TEST}; chance alone would often agree")
DOUBLED = PaperClaim("doubling a canary hardly changes the attack", caveat=NO_TEST)
COPIES = "25 repetitions, scaled to the data; the paper does not say."
FOUR = (0, 4, 6, 10)
"""Four of the fourteen canaries, one of each kind: organic and random, of low and of high frequency."""


def label_trials(plan: StudyPlan) -> list[Config]:
    """List trials of five canaries of one template with equal, different or mixed labels."""
    usual: Config = {"repetitions": 25, "controls": 2}
    return [config for pattern in PATTERNS for config in victims(plan, PAPER_YELP, labels=pattern, **usual)]


def label_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report pruned rank by label pattern."""
    by_pattern = grouped(trials, lambda config: str(config["labels"]))
    rows = [rank_row({"labels": pattern}, group) for pattern, group in by_pattern.items()]
    same_label, different_label = (values(by_pattern[pattern], "exhaustive", 1) for pattern in ("same", "different"))
    claim = Claim(
        LABELS.words,
        2 * fmean(different_label) <= fmean(same_label),
        f"mean rank by class loss {fmean(different_label):.0f} with different labels, {fmean(same_label):.0f} with "
        "one label",
    )
    more = ["In the mixed pattern two pairs share a label; the paper does not say which.", control_line(trials)]
    return Report(list(rows[0]), rows, [claim], [*set_up(plan, PAPER_YELP), COPIES, *more])


def position_trials(plan: StudyPlan) -> list[Config]:
    """List trials in which each of the five words of four canaries is unknown in turn, on one victim."""
    table = TABLE_1 if plan.scale == "paper" else SMALL_TABLE
    targets = [table[index].target for index in FOUR]
    return victims(plan, PAPER_YELP, repetitions=25, positions=list(POSITIONS), only=targets, controls=4)


def position_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report pruned rank by the position of the unknown word."""
    by_canary: dict[str, dict[int, str]] = {}
    for name in trials[0].result["ranks"]:
        canary, _, position = name.rpartition(" ")
        by_canary.setdefault(canary, {})[int(position)] = name
    rows = [
        rank_row({"canary": canary, "position": position}, trials, name)
        for canary, names in by_canary.items()
        for position, name in names.items()
    ]
    best = {canary: _easiest(trials, names) for canary, names in by_canary.items()}
    claim = Claim(
        POSITION.words,
        len(set(best.values())) > 1 if len(best) > 1 else None,
        f"lowest mean rank at {', '.join(f'{position} ({canary})' for canary, position in best.items())}; with few "
        "trials only a tendency",
    )
    notes = [*set_up(plan), "25 repetitions; the paper does not say.", control_line(trials)]
    return Report(list(rows[0]), rows, [claim], notes)


def _easiest(trials: Sequence[StudyTrial], names: Mapping[int, str]) -> int:
    """Return the position with the lowest mean rank, for a canary's ``names`` by position."""
    ranks = {position: values(trials, "exhaustive", 1, name) for position, name in names.items()}
    return min(ranks, key=lambda position: fmean(ranks[position]) if ranks[position] else math.inf)


def length_trials(plan: StudyPlan) -> list[Config]:
    """List trials with pairs of canaries joined by "and", and with single canaries."""
    return [
        config
        for repetitions in REPETITIONS
        for doubled in (False, True)
        for config in victims(plan, PAPER_YELP, repetitions=repetitions, doubled=doubled)
    ]


def length_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report pruned rank of single and doubled canaries by repetitions."""
    groups = sorted(grouped(trials, lambda config: (config["repetitions"], config["doubled"])).items())
    rows = [
        rank_row({"copies": copies, "length": "doubled" if doubled else "single"}, group)
        for (copies, doubled), group in groups
    ]
    means = {setting: fmean(values(group, "frankenstein", 1)) for setting, group in groups}
    ratios = [means[copies, True] / means[copies, False] for copies, doubled in means if doubled]
    claim = Claim(
        DOUBLED.test("within a factor of two"),
        all(0.5 <= ratio <= 2 for ratio in ratios),
        "mean rank among Frankenstein's candidates, doubled over single: " + ", ".join(f"{r:.2f}" for r in ratios),
    )
    return Report(list(rows[0]), rows, [claim], [*set_up(plan, PAPER_YELP), categories(plan), control_line(trials)])


def rank_row(head: TableRow, trials: Sequence[StudyTrial], canary: str | None = None) -> TableRow:
    """Return a row with candidates needed and pruned rank of every generator after the cells of ``head``."""
    row = dict(head)
    for generator, words in GENERATORS.items():
        row[f"{words} K"] = round(fmean(values(trials, generator, 0, canary)))
        row[f"{words} beam"] = from_zero(values(trials, generator, 1, canary), trials[0].result["alphabet"])
    return {**row, "published": Published(None)}


RANKS = (
    {"exhaustive": "all beam", "language model": "LM beam", "Frankenstein": "Frank. beam"},
    "rank by class loss, from 0",
)
"""Columns and label of plots of mean ranks by generator."""


def _register(number: int, title: str, trials: Any, report: Any, label: str) -> None:
    """Register a figure's study. ``label`` formats the name of a plot's group from the row's cells."""
    register_study(f"figure-{number}", title, f"Figure {number}", trials, report, plotter(label.format_map, *RANKS))


_register(
    4, "five canaries of one template with equal, mixed and different labels", label_trials, label_report, "{labels}"
)
_register(5, "each word of four canaries unknown in turn", position_trials, position_report, "{canary} {position}")
_register(
    6, "pairs of canaries joined with 'and', against single ones", length_trials, length_report, "{length} ×{copies}"
)
