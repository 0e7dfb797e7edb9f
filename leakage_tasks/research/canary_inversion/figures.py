"""Figures 2 to 5 of Parikh, Dupuy and Gupta (2022): HDT by repetitions and by data set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from leakage_tasks.research.canary_inversion.counts import (
    FINISHED,
    MARGIN,
    accuracy,
    alike,
    below_chance,
    chance,
    closer,
    distances,
    hdt,
    lower,
    pooled,
    rises,
    set_up,
)
from leakage_tasks.research.canary_inversion.experiment import ATIS, GENERATED, SNIPS, ground_at
from leakage_tasks.research.canary_inversion.settings import PATTERNS
from leakage_tasks.research.canary_inversion.tables import REPEATS, undefended
from leakage_tasks.research.canary_inversion.trials import chosen, register_study, victims
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Published, Report, TableRow, point_of

MIXED = {"color": 4, "pin": 4, "call": 10}
"""n of Figures 3 to 5."""
SHOWN = {SNIPS: "Snips", ATIS: "ATIS", GENERATED: "generated"}
COPIES: Mapping[Scale, Mapping[str, Sequence[int]]] = {
    "smoke": {SNIPS: (100,), ATIS: (100,), GENERATED: (100,)},
    "small": {SNIPS: (100,), ATIS: (10, 100), GENERATED: (10, 100)},
    "paper": {
        SNIPS: (10, 100, 500, 1000, 2000),
        ATIS: (10, 100, 200, 500),
        GENERATED: (10, 100, 200, 500),
    },
}
"""R for each data set; the paper has 100 to 10,000 for NLU-Evaluation, which is six times as large."""
INSTEAD = (
    "The generated set of this package stands for NLU-Evaluation, which has 25,000 utterances; its claims are "
    "tested on what it is not."
)


def figure_2_trials(plan: StudyPlan) -> list[Config]:
    """Canaries of six unknown tokens at several R."""
    return [config for copies in REPEATS[plan.scale][6] for config in undefended(plan, 6, copies)]


def figure_2(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT by R for n = 6."""
    found = {c: chosen_at(trials, SNIPS, plan, c, dict.fromkeys(PATTERNS, 6)) for c in REPEATS[plan.scale][6]}
    rows = [{"R": copies, **_patterns(each)} for copies, each in found.items()]
    by_pattern = {pattern: [distances(each[pattern]) for each in found.values()] for pattern in PATTERNS}
    fewer_wrong = [[1 - value for value in row] for groups in by_pattern.values() for row in zip(*groups, strict=True)]
    claims = [
        below_chance(
            "the attack is below chance for every pattern, over all R",
            {pattern: pooled(groups) for pattern, groups in by_pattern.items()},
        ),
        rises("the share of right slots rises with R (the paper: up to 1000, not monotonically)", fewer_wrong),
    ]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), SHARED])


SHARED = "The trials of one seed have the same secrets at every R, and all trials the same utterances."


def chosen_at(
    trials: Sequence[StudyTrial], data: str, plan: StudyPlan, copies: int, unknown: Mapping[str, int]
) -> dict[str, list[Config]]:
    """What was found of each pattern in one set at one R."""
    own = ground_at(plan.scale, data).data
    return {p: chosen(trials, p, n, set=own, published_copies=copies) for p, n in unknown.items()}


def _patterns(found: Mapping[str, list[Config]]) -> TableRow:
    row: TableRow = {"published": Published(None)}
    for pattern in PATTERNS:
        row |= {
            pattern: hdt(found[pattern]),
            f"{pattern} finished": hdt(found[pattern], when=FINISHED),
            f"{pattern} Acc": accuracy(found[pattern]),
        }
    return row


def figure_3_trials(plan: StudyPlan) -> list[Config]:
    """The three sets at their R."""
    snips = [config for copies in COPIES[plan.scale][SNIPS] for config in _mixed(plan, SNIPS, copies)]
    return [*snips, *by_set_trials(plan, ATIS), *by_set_trials(plan, GENERATED)]


def _mixed(plan: StudyPlan, data: str, copies: int) -> list[Config]:
    return victims(plan, MIXED, copies, data=data)


def by_set_trials(plan: StudyPlan, data: str) -> list[Config]:
    """One set at each of its R."""
    return [config for copies in COPIES[plan.scale][data] for config in _mixed(plan, data, copies)]


def figure_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """HDT by data set, at the R of lowest HDT as in the paper's best figures."""
    rows, best, notes = [], {}, []
    for data in SHOWN:
        at = {copies: chosen_at(trials, data, plan, copies, MIXED) for copies in COPIES[plan.scale][data]}
        copies = min(at, key=lambda each: (sum(sum(distances(found)) for found in at[each].values()), each))
        best[data], own = at[copies], SHOWN[ground_at(plan.scale, data).data]
        rows.append({"set": own, "R": copies, **_patterns(best[data])})
        notes += [f"{own}: {note}" for note in set_up(trials, plan, data)]
    short = {data: [v for p in ("pin", "color") for v in distances(found[p])] for data, found in best.items()}
    claims = [
        alike(f"shorter canaries come out of Snips and ATIS alike, to within {MARGIN}", short[SNIPS], short[ATIS]),
        lower("those in Snips come out better than those in the third set", short[SNIPS], short[GENERATED]),
        *(
            below_chance(f"{SHOWN[data]}: the attack is below chance", {p: hdt(found[p]) for p in PATTERNS})
            for data, found in best.items()
        ),
    ]
    chosen_after = "The R of lowest HDT for each set, chosen after the fact."
    return Report(list(rows[0]), rows, claims, [*dict.fromkeys(notes), chosen_after, INSTEAD])


def by_set(data: str) -> Callable[[Sequence[StudyTrial], StudyPlan], Report]:
    """The report of one set: HDT by R."""

    def report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
        repeats = COPIES[plan.scale][data]
        found = {copies: chosen_at(trials, data, plan, copies, MIXED) for copies in repeats}
        rows = [{"R": copies, **_patterns(each)} for copies, each in found.items()]
        most = {pattern: hdt(each) for pattern, each in found[repeats[-1]].items()}
        fewest, mostly = ([v for p in PATTERNS for v in distances(found[c][p])] for c in (repeats[0], repeats[-1]))
        claims = [below_chance(f"below chance at R = {repeats[-1]}", most)]
        if len(repeats) > 1:
            claims.append(closer(f"R = {repeats[-1]} leaks more than {repeats[0]}", mostly, fewest))
        notes = [*set_up(trials, plan, data), SHARED, *([INSTEAD] if data == GENERATED else [])]
        return Report(list(rows[0]), rows, claims, notes)

    return report


def plotter(name: str) -> Callable[[Report, Path], None]:
    """A plot of HDT with intervals: a place a row of the table, a colour a pattern, lines at chance."""

    def plot(report: Report, path: Path) -> None:
        from leakage_tasks.research.framework.plots import plot_groups

        groups = {
            f"{name} = {row[name]}".removeprefix("set = "): {pattern: point_of(row[pattern]) for pattern in PATTERNS}
            for row in report.rows
        }
        plot_groups(groups, "Hamming distance per token", path, chance=chance("pin"))

    return plot


register_study("figure-2", "HDT by repetitions, n = 6, Snips", "Figure 2", figure_2_trials, figure_2, plotter("R"))
register_study("figure-3", "HDT by data set", "Figure 3", figure_3_trials, figure_3, plotter("set"))
for _name, _data in (("figure-4", ATIS), ("figure-5", GENERATED)):
    register_study(
        _name,
        f"HDT by repetitions, {SHOWN[_data]} set",
        f"Figure {_name[-1]}",
        lambda plan, data=_data: by_set_trials(plan, data),
        by_set(_data),
        plotter("R"),
    )
