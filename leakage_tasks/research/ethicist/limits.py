"""Studies of limitations of Zhang, Wen and Huang (2023): random prefixes, and prompts transferred to other models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

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
    LINEAR,
    NEAREST,
    NONE,
    OWN,
    RANDOM,
    TRANSFERRED,
    family,
    prefix_trials,
    register_limit_study,
    transfer_trials,
)
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.plots import Point, plot_groups
from leakage_tasks.research.framework.registry import Draw, StudyPlan, StudyTrial, grouped
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow, point_of

if TYPE_CHECKING:
    from leakage_tasks.core.arrays import FloatArray

METHODS = {False: "no prompt", True: "Ethicist"}
CLAIMS = {
    "recall": PaperClaim("recall is higher on the benchmark"),
    "early stop": PaperClaim("early stop is higher on the benchmark too"),
}
FALL = "fall"
"""Name of the row of differences, in place of a kind of prefixes."""


def independently_resampled(measure: Measure) -> Measure:
    """Return a measure for a comparison with other pairs: it resamples its pairs independently."""

    def shifted(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        import numpy as np

        return measure(trial, np.roll(weights, 1, axis=0))

    return shifted


def random_prefixes(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall after the benchmark's prefixes and after random prefixes, and the difference."""
    by = grouped(trials, lambda config: (config["prefixes"], config["tuning"] is not None))
    rows, claims = list[TableRow](), list[Claim]()
    for tuned, method in METHODS.items():
        benchmark, random = by[BENCHMARK, tuned], by[RANDOM, tuned]
        falls = {
            column: difference((benchmark, measure()), (random, independently_resampled(measure())))
            for column, measure in MEASURES.items()
        }
        for prefixes, group in ((BENCHMARK, benchmark), (RANDOM, random)):
            figures = {column: measured(group, measure()) for column, measure in MEASURES.items()}
            rows.append(
                {"method": method, "prefixes": prefixes, "published": Published(None), **figures, **_bits(group)}
            )
        rows.append(
            {"method": method, "prefixes": FALL, **{column: _cell(fall, trials) for column, fall in falls.items()}}
        )
        claims += [above(CLAIMS[column].test(method), fall, FALL) for column, fall in falls.items()]
    return Report(list(rows[0]), rows, claims, [*differences(plan.scale), _random_note(plan), intervals(trials)])


def _bits(trials: Sequence[StudyTrial]) -> TableRow:
    """Return the mean cost of a true suffix."""
    means = [sum(trial.result["bits"]) / len(trial.result["bits"]) for trial in trials]
    return {"suffix (bits)": Measured.mean(means)}


def _cell(contrast: MeasureContrast, trials: Sequence[StudyTrial]) -> Measured:
    return Measured(contrast.value, contrast.low, contrast.high, len({trial.config["seed"] for trial in trials}))


def _random_note(plan: StudyPlan) -> str:
    if plan.scale == "paper":
        return "Random prefixes are the first 1,000 of $LEAKAGE_DATA/random_pairs, cut from the model's training data."
    victim = ground_at(plan.scale).sizes[ground_at(plan.scale).main]
    assert isinstance(victim, dict)
    return (
        "Random prefixes come from the other text of the end of training, which the model read once or twice; it "
        f"read the benchmark's pairs {victim['recipe']['epochs']} times. Values fall because the benchmark selects "
        "suffixes that a model reproduces, which are mostly suffixes that it read often."
    )


def transfer(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report recall of models with the smallest model's prompt."""
    by = grouped(trials, lambda config: (config["size"], config["way"]))
    source, *targets = family(plan)
    rows: list[TableRow] = [
        {
            "model": target,
            "prompt": way,
            "published": Published(None),
            **{column: measured(group, measure()) for column, measure in MEASURES.items()},
            **({"recall gained": _cell(_gain(by[target, NONE], group), group)} if way != NONE else {}),
        }
        for (target, way), group in by.items()
    ]
    claims = [claim for target in targets for claim in _target_claims(target, by)]
    columns = ["model", "prompt", "published", *MEASURES, "recall gained"]
    return Report(columns, rows, claims, [*differences(plan.scale), *_transfer_notes(source), intervals(trials)])


def _gain(without: Sequence[StudyTrial], group: Sequence[StudyTrial]) -> MeasureContrast:
    return difference((group, recall()), (without, recall()))


def _target_claims(target: str, by: Mapping[tuple[str, str], list[StudyTrial]]) -> list[Claim]:
    """Return claims that a transferred prompt is better than no prompt, and worse than the model's own prompt."""
    without, with_own_prompt = by[target, NONE], by[target, OWN]
    claims = [more(f"{target}: its own prompt lifts recall", (with_own_prompt, recall()), (without, recall()))]
    for way in TRANSFERRED:
        if (target, way) in by:
            side: Side = by[target, way], recall()
            claims.append(more(f"{target}: a transferred prompt ({way}) lifts recall", side, (without, recall())))
            claims.append(
                more(
                    f"{target}: its own prompt has more recall than a transferred one ({way})",
                    (with_own_prompt, recall()),
                    side,
                )
            )
    return claims


def _transfer_notes(source: str) -> list[str]:
    return [
        f"The prompt was tuned on {source}, the smallest model, because this has the lowest cost.",
        f"'{AS_IS}': unchanged vectors, which requires equal widths. '{LINEAR}': the least-squares map from one "
        f"table of embeddings to the other, as both models share a tokenizer. '{NEAREST}': the other model's embedding "
        "of the token whose embedding has the highest cosine with the vector. The last two work with all widths.",
    ]


def plotter(group: str, series: str) -> Draw:
    """Return a function that plots recall with intervals: a position per ``group``, a colour per ``series``."""

    def plot(report: Report, path: Path) -> None:
        groups: dict[str, dict[str, Point | None]] = {}
        for row in report.rows:
            if row[series] != FALL:
                groups.setdefault(str(row[group]), {})[str(row[series])] = point_of(row["recall"])
        plot_groups(groups, "recall", path)

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
    "a prompt transferred to other models",
    "Limitations",
    transfer_trials,
    transfer,
    plotter("model", "prompt"),
)
