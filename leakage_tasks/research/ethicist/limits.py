"""Limitations of Zhang, Wen and Huang (2023) as studies: random prefixes, and prompts carried over to other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakage_tasks.report.plots.style import colour, legend_below, marker, new_figure, save
from leakage_tasks.research.ethicist.experiment import differences, ground_at
from leakage_tasks.research.ethicist.guesses import (
    MEASURES,
    Measure,
    MeasureContrast,
    Side,
    above,
    difference,
    intervals,
    measured,
    more,
    recall,
)
from leakage_tasks.research.ethicist.limit_trials import (
    AS_IS,
    BENCHMARK,
    CARRIED,
    LINEAR,
    NEAREST,
    NONE,
    OWN,
    RANDOM,
    family,
    prefix_trials,
    register_limit_study,
    transfer_trials,
)
from leakage_tasks.research.framework.registry import Draw, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow, point_of

if TYPE_CHECKING:
    from leakage_tasks.core.arrays import FloatArray

METHODS = {False: "no prompt", True: "Ethicist"}
FALL = "fall"
"""In place of a kind of prefixes: the difference between both."""


def apart(measure: Measure) -> Measure:
    """A measure for pairs that are others than those it is compared with: they are drawn anew on their own."""

    def shifted(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        import numpy as np

        return measure(trial, np.roll(weights, 1, axis=0))

    return shifted


def random_prefixes(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Recall after the benchmark's prefixes and after random ones, and how far it falls."""
    by = grouped(trials, lambda config: (config["prefixes"], config["tuning"] is not None))
    rows, claims = list[TableRow](), list[Claim]()
    for tuned, method in METHODS.items():
        benchmark, random = by[BENCHMARK, tuned], by[RANDOM, tuned]
        falls = {
            what: difference((benchmark, measure()), (random, apart(measure()))) for what, measure in MEASURES.items()
        }
        for prefixes, own in ((BENCHMARK, benchmark), (RANDOM, random)):
            figures = {what: measured(own, measure()) for what, measure in MEASURES.items()}
            rows.append({"method": method, "prefixes": prefixes, "published": Published(None), **figures, **_bits(own)})
        rows.append({"method": method, "prefixes": FALL, **{what: _cell(each, trials) for what, each in falls.items()}})
        words = {"recall": "recall", "early stop": "recall_early_stop"}
        claims += [
            above(f"{words[what]} falls at random prefixes, {method}", each, FALL) for what, each in falls.items()
        ]
    return Report(list(rows[0]), rows, claims, [*differences(plan.scale), _random_note(plan), intervals(trials)])


def _bits(trials: Sequence[StudyTrial]) -> TableRow:
    """The mean cost of a true suffix."""
    means = [sum(trial.result["bits"]) / len(trial.result["bits"]) for trial in trials]
    return {"suffix (bits)": Measured.mean(means)}


def _cell(found: MeasureContrast, trials: Sequence[StudyTrial]) -> Measured:
    return Measured(found.value, found.low, found.high, len({trial.config["seed"] for trial in trials}))


def _random_note(plan: StudyPlan) -> str:
    if plan.scale == "paper":
        return "Random prefixes are the first 1,000 of $LEAKAGE_DATA/random_pairs, cut from the model's training data."
    victim = ground_at(plan.scale).sizes[ground_at(plan.scale).main]
    assert isinstance(victim, dict)
    return (
        f"Random prefixes are cut from the other text that the model was trained on last, each piece of it once or "
        f"twice; the benchmark's pairs it has seen {victim['recipe']['epochs']} times. So they fall for what the "
        "benchmark's are chosen by: suffixes that a model is known to give back are mostly those it saw often."
    )


def transfer(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Recall with the prompt of the smallest model put before others."""
    by = grouped(trials, lambda config: (config["size"], config["way"]))
    source, *targets = family(plan)
    rows: list[TableRow] = [
        {
            "model": target,
            "prompt": way,
            "published": Published(None),
            **{what: measured(own, measure()) for what, measure in MEASURES.items()},
            **({"recall gained": _cell(_gain(by[target, NONE], own), own)} if way != NONE else {}),
        }
        for (target, way), own in by.items()
    ]
    claims = [claim for target in targets for claim in _target_claims(target, by)]
    columns = ["model", "prompt", "published", *MEASURES, "recall gained"]
    return Report(columns, rows, claims, [*differences(plan.scale), *_transfer_notes(source), intervals(trials)])


def _gain(without: Sequence[StudyTrial], own: Sequence[StudyTrial]) -> MeasureContrast:
    return difference((own, recall()), (without, recall()))


def _target_claims(target: str, by: Mapping[tuple[str, str], list[StudyTrial]]) -> list[Claim]:
    """Whether a prompt that was carried over to a model is better than none, and worse than its own."""
    without, own = by[target, NONE], by[target, OWN]
    claims = [more(f"{target}: its own prompt lifts recall over none", (own, recall()), (without, recall()))]
    for way in CARRIED:
        if (target, way) in by:
            side: Side = by[target, way], recall()
            claims.append(
                more(f"{target}: a prompt carried over ({way}) lifts recall over none", side, (without, recall()))
            )
            claims.append(
                more(f"{target}: its own prompt has more recall than one carried over ({way})", (own, recall()), side)
            )
    return claims


def _transfer_notes(source: str) -> list[str]:
    return [
        f"The prompt is that of {source}, the smallest model, which is the cheapest to tune.",
        f"'{AS_IS}': the same vectors, which takes a model of equal width. '{LINEAR}': the least-squares map from one "
        f"table of embeddings to the other, for both models know the same tokens. '{NEAREST}': of each vector the "
        "token whose embedding has the highest cosine with it, and the other model's embedding of that token. The last "
        "two go between any widths.",
    ]


def plotter(group: str, series: str) -> Draw:
    """A plot of recall with intervals: a place for each ``group`` of rows, a colour and mark for each ``series``."""

    def plot(report: Report, path: Path) -> None:
        rows = [row for row in report.rows if row[series] != FALL]
        groups, names = ([*dict.fromkeys(str(row[column]) for row in rows)] for column in (group, series))
        figure = new_figure(max(6.0, 2.5 * len(groups)), 3.8)
        axes = figure.add_subplot()
        for row in rows:
            number = names.index(str(row[series]))
            value, low, high = point_of(row["recall"]) or (0.0, 0.0, 0.0)
            place = groups.index(str(row[group])) + (number - (len(names) - 1) / 2) * 0.15
            look: dict[str, Any] = {"fmt": marker(number), "color": colour(number), "capsize": 3}
            label = str(row[series]) if str(row[group]) == groups[0] else None
            axes.errorbar(place, value, yerr=[[value - low], [high - value]], label=label, **look)
        axes.set_xticks(range(len(groups)), groups)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("recall")
        axes.grid(axis="y", alpha=0.3)
        legend_below(figure, zip(*axes.get_legend_handles_labels(), strict=True))
        save(figure, path)

    return plot


register_limit_study(
    "random-prefixes",
    "prefixes chosen at random",
    "Limitations",
    prefix_trials,
    random_prefixes,
    plotter("method", "prefixes"),
)
register_limit_study(
    "transfer",
    "a prompt carried over to other models",
    "Limitations",
    transfer_trials,
    transfer,
    plotter("model", "prompt"),
)
