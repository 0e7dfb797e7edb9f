"""Exposure's estimators beside the truth, over a training run; what goes beyond The Secret Sharer."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Report, TableRow
from leakage_tasks.research.secret_sharer.experiment import Watch, configs
from leakage_tasks.research.secret_sharer.trials import INDEPENDENT, entries, every_look, register_study, set_up

SHORT = {"smoke": "The random number is {digits:2}"}
USUAL = "The random number is {digits:5}"
"""A space small enough for all of it to be scored."""
NAMES = ("estimated", "sampled", "extrapolated")


def estimator_trials(plan: StudyPlan) -> list[Config]:
    """A secret of five digits, whose true rank can be had, looked at by every estimator after every epoch."""
    watch = Watch(("exact", "every text"), ("exact", "estimated", "sampled", "extrapolated"), (0,))
    return configs(plan, watch=watch, template=SHORT.get(plan.scale, USUAL), controls=1)


def estimators(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The estimators beside the truth, epoch by epoch."""
    looks = list(every_look(trials, controls=True))
    rows = [_row(*look) for look in looks]
    claims = [*(_covers(rows, name) for name in NAMES[:2]), _same(trials), _nearest([entry for _, _, entry in looks])]
    notes = [INDEPENDENT, "The secret has so few fillings that all can be counted. One control is looked at as well."]
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), *notes])


def _row(seed: int, epoch: int, entry: Config) -> TableRow:
    """One canary after one epoch: the truth, and what each estimator says; ``≥`` where that is a lower bound."""
    row: TableRow = {"seed": seed, "epoch": epoch, "canary": entry["canary"], "exact": entry["exact"]["bits"]}
    for name in NAMES:
        found = entry[name]
        bound = found["method"] == "lower_bound"
        row[name] = f"≥ {found['bits']:.3g}" if bound else found["bits"]
        row[f"{name}: within"] = _within(found, entry["exact"]["bits"])
    return {**row, "fit": "rejected" if entry["extrapolated"]["rejected"] else "not rejected"}


def _nearest(found: Sequence[Config]) -> Claim:
    """That importance draws are nearest to the truth on average, lower bounds taken as they are."""
    errors = {name: [abs(each[name]["bits"] - each["exact"]["bits"]) for each in found] for name in NAMES}
    shown = ", ".join(f"{name} {fmean(values):.2f} (largest {max(values):.2f})" for name, values in errors.items())
    return Claim(
        "importance draws come nearest to the truth of the three estimates",
        all(fmean(errors["estimated"]) <= fmean(values) for values in errors.values()),
        f"mean error in bits, lower bounds as they are: {shown}",
    )


def _within(found: Config, truth: float) -> str:
    return "yes" if found["low"] - 1e-9 <= truth <= found["high"] + 1e-9 else "no"


def _covers(rows: Sequence[TableRow], name: str) -> Claim:
    """That an estimator's 95 % intervals hold the truth at least that often (one-sided binomial test)."""
    from scipy import stats

    inside = sum(row[f"{name}: within"] == "yes" for row in rows)
    p = stats.binomtest(inside, len(rows), 0.95, alternative="less").pvalue
    return Claim(f"the 95 % interval of '{name}' covers", bool(p >= 0.05), f"{inside} of {len(rows)}, p = {p:.2g}")


def _same(trials: Sequence[StudyTrial]) -> Claim:
    found = [entry for trial in trials for entry in entries([trial])]
    differs = [abs(entry["exact"]["bits"] - entry["every text"]["bits"]) for entry in found]
    return Claim("pruned search counts what scoring every text counts", max(differs) == 0, f"{len(found)} models")


register_study("estimators", "exposure's estimators beside the truth", "beyond the paper", estimator_trials, estimators)
