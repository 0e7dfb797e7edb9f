"""Figures 4, 5 and 6 of Elmahdy and Salem 2023: labels, position and length. Their figures are not in the source."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.canaries.presets.mix_and_match import PATTERNS, TABLE_1
from leakage_tasks.research.classifiers.experiment import PAPER_YELP
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.plots import plot_groups
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow, point_of
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
COPIES = "25 repetitions, or as many as stand for them; the paper does not say."
FOUR = (0, 4, 6, 10)
"""Of the fourteen, one of each kind: organic and random, of low and of high frequency."""


def label_trials(plan: StudyPlan) -> list[Config]:
    """Five canaries of one template with the same label, different labels, or some of both."""
    usual: Config = {"repetitions": 25, "controls": 2}
    return [config for pattern in PATTERNS for config in victims(plan, PAPER_YELP, labels=pattern, **usual)]


def label_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank by label pattern."""
    by_pattern = grouped(trials, lambda config: str(config["labels"]))
    rows = [rank_row({"labels": pattern}, own) for pattern, own in by_pattern.items()]
    same, different = (values(by_pattern[pattern], "exhaustive", 1) for pattern in ("same", "different"))
    claim = Claim(
        "canaries that differ in one token alone are found far better with distinct labels",
        2 * fmean(different) <= fmean(same),
        f"mean place by class loss {fmean(different):.0f} with different labels, {fmean(same):.0f} with the same",
    )
    more = ["In the mixed pattern two and two share a label; the paper does not say which do.", control_line(trials)]
    return Report(list(rows[0]), rows, [claim], [*set_up(plan, PAPER_YELP), COPIES, *more])


def position_trials(plan: StudyPlan) -> list[Config]:
    """Four canaries; each of their five words unknown in turn, on one victim."""
    table = TABLE_1 if plan.scale == "paper" else SMALL_TABLE
    only = [table[place].target for place in FOUR]
    return victims(plan, PAPER_YELP, repetitions=25, positions=list(POSITIONS), only=only, controls=4)


def position_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank by the place of the unknown word."""
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
        "no position is easiest for all canaries",
        len(set(best.values())) > 1 if len(best) > 1 else None,
        f"lowest mean place at {', '.join(f'{each} ({canary})' for canary, each in best.items())}; with so few trials "
        "a tendency, no more",
    )
    notes = [*set_up(plan), "25 repetitions; the paper does not say.", control_line(trials)]
    return Report(list(rows[0]), rows, [claim], notes)


def _easiest(trials: Sequence[StudyTrial], names: Mapping[int, str]) -> int:
    """The position of lowest mean place, of a canary's ``names`` by position."""
    places = {position: values(trials, "exhaustive", 1, name) for position, name in names.items()}
    return min(places, key=lambda position: fmean(places[position]) if places[position] else math.inf)


def length_trials(plan: StudyPlan) -> list[Config]:
    """Pairs joined with "and", and the single canaries beside them."""
    return [
        config
        for repetitions in REPETITIONS
        for doubled in (False, True)
        for config in victims(plan, PAPER_YELP, repetitions=repetitions, doubled=doubled)
    ]


def length_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank of single and doubled canaries by repetitions."""
    groups = sorted(grouped(trials, lambda config: (config["repetitions"], config["doubled"])).items())
    rows = [
        rank_row({"copies": copies, "length": "doubled" if doubled else "single"}, own)
        for (copies, doubled), own in groups
    ]
    means = {group: fmean(values(own, "frankenstein", 1)) for group, own in groups}
    ratios = [means[copies, True] / means[copies, False] for copies, doubled in means if doubled]
    claim = Claim(
        "doubling a canary's length leaves the attack much as it was (within a factor of two)",
        all(0.5 <= ratio <= 2 for ratio in ratios),
        "mean place among Frankenstein's candidates, doubled over single: " + ", ".join(f"{r:.2f}" for r in ratios),
    )
    return Report(list(rows[0]), rows, [claim], [*set_up(plan, PAPER_YELP), categories(plan), control_line(trials)])


def rank_row(head: TableRow, trials: Sequence[StudyTrial], canary: str | None = None) -> TableRow:
    """A row with both numbers of every generator after the cells of ``head``."""
    row = dict(head)
    for generator, words in GENERATORS.items():
        row[f"{words} K"] = round(fmean(values(trials, generator, 0, canary)))
        row[f"{words} beam"] = from_zero(values(trials, generator, 1, canary), trials[0].result["alphabet"])
    return {**row, "published": Published(None)}


def plot_ranks(report: Report, path: Path, *, label: str) -> None:
    """Mean places from 0 with their intervals, a group a row of the table, a colour a generator."""
    names = {"all": "exhaustive", "LM": "language model", "Frank.": "Frankenstein"}
    groups = {
        label.format_map(row): {words: point_of(row[f"{short} beam"]) for short, words in names.items()}
        for row in report.rows
    }
    plot_groups(groups, "place by class loss, from 0", path)


def _register(number: int, title: str, trials: Any, report: Any, label: str) -> None:
    """Register a figure's study; ``label`` names a group of its plot by the row's cells."""
    register_study(f"figure-{number}", title, f"Figure {number}", trials, report, partial(plot_ranks, label=label))


_register(
    4, "five canaries of one template with the same, mixed and different labels", label_trials, label_report, "{labels}"
)
_register(5, "each word of four canaries unknown in turn", position_trials, position_report, "{canary} {position}")
_register(
    6, "pairs of canaries joined with 'and', against single ones", length_trials, length_report, "{length} ×{copies}"
)
