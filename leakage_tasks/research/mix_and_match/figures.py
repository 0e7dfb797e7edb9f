"""Figures 4, 5 and 6 of Elmahdy and Salem 2023: labels, position and length. Their figures are not in the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from leakage_tasks.canaries.presets.mix_and_match import PATTERNS, TABLE_1
from leakage_tasks.research.classifiers.experiment import PAPER_YELP
from leakage_tasks.research.classifiers.lab_canaries import SMALL_TABLE
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow, point_of
from leakage_tasks.research.mix_and_match.tables import (
    categories,
    control_line,
    from_zero,
    register_study,
    set_up,
    values,
)
from leakage_tasks.research.mix_and_match.trials import victim

SEEDS = {"smoke": 1, "small": 3, "paper": 10}
REPETITIONS = (5, 25, 100)
POSITIONS = (1, 2, 3, 4, 5)
COPIES = "25 repetitions, or as many as stand for them; the paper does not say."
FOUR = (0, 4, 6, 10)
"""Of the fourteen, one of each kind: organic and random, of low and of high frequency."""


def _ground(plan: StudyPlan) -> Any:
    return PAPER_YELP if plan.scale == "paper" else None


def label_trials(plan: StudyPlan) -> list[Config]:
    """Five canaries of one template with the same label, different labels, or some of both."""
    seeds = plan.seeds(SEEDS[plan.scale])
    return [victim(plan, seed, _ground(plan), 25, labels=pattern, controls=2) for pattern in PATTERNS for seed in seeds]


def label_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank by label pattern."""
    by_pattern = {pattern: [each for each in trials if each.config["labels"] == pattern] for pattern in PATTERNS}
    rows = [_row("labels", pattern, own) for pattern, own in by_pattern.items()]
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
    more = {"positions": list(POSITIONS), "only": [table[place].target for place in FOUR], "controls": 4}
    return [victim(plan, seed, _ground(plan), 25, **more) for seed in plan.seeds(SEEDS[plan.scale])]


def position_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank by the place of the unknown word."""
    ranks = trials[0].result["ranks"]
    canaries = list(dict.fromkeys(name.rpartition(" ")[0] for name in ranks))
    rows = []
    for canary in canaries:
        for position in POSITIONS:
            name = f"{canary} {position}"
            if name in ranks:
                rows.append(_row("canary", canary, trials, name) | {"position": position})
    best = {canary: _best_position(trials, canary, ranks) for canary in canaries}
    claim = Claim(
        "no position is easiest for all canaries",
        len(set(best.values())) > 1 if len(best) > 1 else None,
        f"lowest mean place at {', '.join(f'{each} ({canary})' for canary, each in best.items())}; with so few trials "
        "a tendency, no more",
    )
    columns = ["canary", "position", *(name for name in rows[0] if name not in ("canary", "position"))]
    return Report(
        columns, rows, [claim], [*set_up(plan), "25 repetitions; the paper does not say.", control_line(trials)]
    )


def _best_position(trials: Sequence[StudyTrial], canary: str, ranks: dict[str, Any]) -> int:
    def place(position: int) -> float:
        found = values(trials, "exhaustive", 1, f"{canary} {position}")
        return fmean(found) if found else float("inf")

    return min((position for position in POSITIONS if f"{canary} {position}" in ranks), key=place)


def length_trials(plan: StudyPlan) -> list[Config]:
    """Pairs joined with "and", and the single canaries beside them."""
    seeds = plan.seeds(SEEDS[plan.scale])
    return [
        victim(plan, seed, _ground(plan), repetitions, doubled=doubled)
        for repetitions in REPETITIONS
        for doubled in (False, True)
        for seed in seeds
    ]


def length_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Pruned rank of single and doubled canaries by repetitions."""
    rows, means = [], {}
    copies = sorted({each.config["repetitions"] for each in trials})
    for number in copies:
        for doubled in (False, True):
            own = [each for each in trials if (each.config["repetitions"], each.config["doubled"]) == (number, doubled)]
            if own:
                rows.append({"copies": number} | _row("length", "doubled" if doubled else "single", own))
                means[number, doubled] = fmean(values(own, "frankenstein", 1))
    ratios = [means[number, True] / means[number, False] for number in copies if (number, True) in means]
    claim = Claim(
        "doubling a canary's length leaves the attack much as it was (within a factor of two)",
        all(0.5 <= ratio <= 2 for ratio in ratios),
        "mean place among Frankenstein's candidates, doubled over single: " + ", ".join(f"{r:.2f}" for r in ratios),
    )
    return Report(list(rows[0]), rows, [claim], [*set_up(plan, PAPER_YELP), categories(plan), control_line(trials)])


def _row(name: str, value: Any, trials: Sequence[StudyTrial], canary: str | None = None) -> TableRow:
    row: TableRow = {name: value}
    for generator, words in (("exhaustive", "all"), ("pretrained", "LM"), ("frankenstein", "Frank.")):
        row[f"{words} K"] = round(fmean(values(trials, generator, 0, canary)))
        row[f"{words} beam"] = from_zero(values(trials, generator, 1, canary), trials[0].result["alphabet"])
    row["published"] = Published(None)
    return row


def plotter(label: Callable[[TableRow], str]) -> Callable[[Report, Path], None]:
    """A plot of mean places from 0 with their intervals, a group a row of the table, a colour a generator."""

    def plot(report: Report, path: Path) -> None:
        from leakage_tasks.research.framework.plots import plot_groups

        names = {"all": "exhaustive", "LM": "language model", "Frank.": "Frankenstein"}
        groups = {
            label(row): {words: point_of(row[f"{short} beam"]) for short, words in names.items()} for row in report.rows
        }
        plot_groups(groups, "place by class loss, from 0", path)

    return plot


register_study(
    "figure-4",
    "five canaries of one template with the same, mixed and different labels",
    "Figure 4",
    label_trials,
    label_report,
    plotter(lambda row: str(row["labels"])),
)
register_study(
    "figure-5",
    "each word of four canaries unknown in turn",
    "Figure 5",
    position_trials,
    position_report,
    plotter(lambda row: f"{row['canary']} {row['position']}"),
)
register_study(
    "figure-6",
    "pairs of canaries joined with 'and', against single ones",
    "Figure 6",
    length_trials,
    length_report,
    plotter(lambda row: f"{row['length']} ×{row['copies']}"),
)
