"""Unknown tokens anywhere in a canary and at a real encoder's full vocabulary; the paper's are the last ones."""

from __future__ import annotations

from collections.abc import Sequence
from math import log2
from statistics import fmean

from leakage_tasks.research.classifiers.experiment import ClassifierExperiment
from leakage_tasks.research.elmahdy.positions_trials import PLACES, UNKNOWN, positions_trials, run
from leakage_tasks.research.elmahdy.trials import SCALES
from leakage_tasks.research.framework.group_tests import decide
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Report, TableRow, show

ALL, NEVER = "any", "never planted"
KEPT = "ten best kept"
CHANCE = "by a random shortlist"
MOST = 0.5
"""A share of the ten best above it is most of them."""


def positions_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Places by the shortlist and among all values, for each place of the unknown tokens."""
    searches = [entry for trial in trials for entry in trial.result["searches"]]
    planted = [entry for entry in searches if entry["planted"]]
    settings = [(where, unknown) for unknown in UNKNOWN for where in PLACES]
    chance = trials[0].config["shortlist"] / trials[0].result["alphabet"]
    rows = [
        _row(where, unknown, [each for each in planted if (each["where"], each["unknown"]) == (where, unknown)], chance)
        for where, unknown in settings
    ]
    rows += [_row(ALL, n, [each for each in planted if each["unknown"] == n], chance) for n in UNKNOWN]
    never = [each for each in searches if not each["planted"]]
    rows += [_row(NEVER, n, [each for each in never if each["unknown"] == n], chance) for n in UNKNOWN]
    single = [entry for entry in planted if entry["unknown"] == 1]
    leading = [entry for entry in single if entry["exact"] <= 10]
    kept = [entry["place"] is not None for entry in leading]
    claims = [
        _most("the shortlist's ten best are mostly those of all values", single),
        Claim(
            "a secret among the ten best of all values is on the shortlist, wherever it stands",
            all(kept) if kept else None,
            f"{sum(kept)} of {len(kept)}",
        ),
    ]
    return Report(list(rows[0]), rows, claims, _set_up(trials, plan))


def _row(where: str, unknown: int, found: Sequence[Config], chance: float) -> TableRow:
    """``chance`` is the share of the ten best that a random shortlist of the same size would keep, on average."""
    within = sum(each["place"] is not None and each["place"] <= 10 for each in found)
    row: TableRow = {"unknown tokens": unknown, "where": where, "found within 10": Measured.rate(within, len(found))}
    exact = unknown == 1
    row |= {
        "within 10 of all values": Measured.rate(sum(e["exact"] <= 10 for e in found), len(found)) if exact else None,
        "mean place of all values": round(2 ** fmean(log2(e["exact"]) for e in found), 1) if exact else None,
        KEPT: Measured.mean([e["kept"] for e in found], 1.0) if exact else None,
        CHANCE: round(chance, 4) if exact else None,
        "rows read": round(fmean(e["calls"] for e in found)),
        "rows of all values": round(fmean(e["exact_calls"] for e in found)) if exact else None,
    }
    return row


def _most(words: str, found: Sequence[Config]) -> Claim:
    """That the whole interval of the share of the ten best that are kept is above a half."""
    kept = Measured.mean([entry["kept"] for entry in found], 1.0)
    if kept.low is None or kept.high is None:
        return Claim(words, None, show(kept))
    return Claim(words, decide(kept.low > MOST, kept.high < MOST), show(kept))


def _set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    ground, own = ClassifierExperiment(**trials[0].config["ground"]), trials[0].config
    right = Measured.mean([trial.result["accuracy"] for trial in trials]).value
    encoder = ground.base or "the lab's own encoder"
    rows = f"{ground.samples:,} rows of {ground.data} in {ground.classes} classes, {own['copies']} copies a canary"
    return [
        f"The victims are {encoder} with {trials[0].result['alphabet']:,} whole words, fine-tuned on {rows}; they get "
        f"{100 * right:.1f} % of validation rows right.",
        "Canaries have ten random words; one or two of them are unknown, from the first, the fifth or at the end. The "
        "paper's are the last ones, with supporting canaries in other classes, which are left out here.",
        f"The shortlist has {own['shortlist']} values a slot by the gradient at 64 points, or at one after each of the "
        f"{own['beam']} first tokens kept. All values are scored for one unknown token only: that is the oracle.",
        "Canaries of one victim are counted as independent.",
    ]


registrar("elmahdy", "Elmahdy, Inan and Sim 2022", {
    **SCALES, "small": "about 10 minutes a trial on 2 cores; the package of the extra `encoder`",
}, run)(
    "positions",
    "unknown tokens anywhere, by a shortlist of a real encoder's whole words",
    "not in the paper",
    positions_trials,
    positions_report,
)  # fmt: skip
