"""A study of unknown tokens at any position of a canary, with a real encoder's vocabulary."""

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
"""Share of the ten best values above which they are a majority."""


def positions_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report ranks by the shortlist and among all values, by position of the unknown tokens."""
    searches = [entry for trial in trials for entry in trial.result["searches"]]
    planted = [entry for entry in searches if entry["planted"]]
    settings = [(where, unknown) for unknown in UNKNOWN for where in PLACES]
    chance = trials[0].config["shortlist"] / trials[0].result["alphabet"]
    rows = [
        _row(
            where,
            unknown,
            [entry for entry in planted if (entry["where"], entry["unknown"]) == (where, unknown)],
            chance,
        )
        for where, unknown in settings
    ]
    rows += [_row(ALL, n, [entry for entry in planted if entry["unknown"] == n], chance) for n in UNKNOWN]
    never = [entry for entry in searches if not entry["planted"]]
    rows += [_row(NEVER, n, [entry for entry in never if entry["unknown"] == n], chance) for n in UNKNOWN]
    single = [entry for entry in planted if entry["unknown"] == 1]
    leading = [entry for entry in single if entry["exact"] <= 10]
    on_shortlist = [entry["place"] is not None for entry in leading]
    claims = [
        _most("the shortlist's ten best are mostly the ten best of all values", single),
        Claim(
            "a secret among the ten best of all values is on the shortlist at every position",
            all(on_shortlist) if on_shortlist else None,
            f"{sum(on_shortlist)} of {len(on_shortlist)}",
        ),
    ]
    return Report(list(rows[0]), rows, claims, _set_up(trials, plan))


def _row(where: str, unknown: int, entries: Sequence[Config], chance: float) -> TableRow:
    """Return a row of the table. ``chance`` is the expected share of the ten best values on a random shortlist."""
    within = sum(entry["place"] is not None and entry["place"] <= 10 for entry in entries)
    row: TableRow = {"unknown tokens": unknown, "where": where, "found within 10": Measured.rate(within, len(entries))}
    exact = unknown == 1
    row |= {
        "within 10 of all values": Measured.rate(sum(entry["exact"] <= 10 for entry in entries), len(entries))
        if exact
        else None,
        "mean place of all values": round(2 ** fmean(log2(entry["exact"]) for entry in entries), 1) if exact else None,
        KEPT: Measured.mean([entry["kept"] for entry in entries], 1.0) if exact else None,
        CHANCE: round(chance, 4) if exact else None,
        "rows read": round(fmean(entry["calls"] for entry in entries)),
        "rows of all values": round(fmean(entry["exact_calls"] for entry in entries)) if exact else None,
    }
    return row


def _most(words: str, entries: Sequence[Config]) -> Claim:
    """Return the claim that the interval of the share of the ten best values on the shortlist is above a half."""
    share = Measured.mean([entry["kept"] for entry in entries], 1.0)
    if share.low is None or share.high is None:
        return Claim(words, None, show(share))
    return Claim(words, decide(share.low > MOST, share.high < MOST), show(share))


def _set_up(trials: Sequence[StudyTrial], plan: StudyPlan) -> list[str]:
    ground, config = ClassifierExperiment(**trials[0].config["ground"]), trials[0].config
    accuracy = Measured.mean([trial.result["accuracy"] for trial in trials]).value
    encoder = ground.base or "our own encoder"
    rows = f"{ground.samples:,} rows of {ground.data} in {ground.classes} classes, {config['copies']} copies a canary"
    return [
        f"The victims are {encoder} with {trials[0].result['alphabet']:,} whole words, fine-tuned on {rows}; their "
        f"accuracy is {100 * accuracy:.1f} % on validation rows.",
        "Canaries have ten random words; one or two of them are unknown, from the first, the fifth or at the end. In "
        "the paper the last tokens are unknown, and other classes have supporting canaries, which are omitted here.",
        f"The shortlist has {config['shortlist']} values per slot by the gradient at 64 points, or at one point after "
        f"each of the {config['beam']} best first tokens. All values are scored only for one unknown token, as the "
        "reference.",
        "Canaries of one victim are treated as independent.",
    ]


registrar("elmahdy", "Elmahdy, Inan and Sim 2022", {
    **SCALES, "small": "about 10 minutes a trial on 2 cores; the package of the extra `encoder`",
}, run)(
    "positions",
    "unknown tokens at any position, by a shortlist of a real encoder's whole words",
    "not in the paper",
    positions_trials,
    positions_report,
)  # fmt: skip
