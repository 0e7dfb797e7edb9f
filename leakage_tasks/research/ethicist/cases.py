"""Figures 6 and 7 of Zhang, Wen and Huang (2023): a right and a wrong suffix side by side, token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from leakage_tasks.research.ethicist.case_plots import LOWEST, SIDES, plot_6, plot_7
from leakage_tasks.research.ethicist.case_trials import RIGHT, case_trials, natural, register_case_study
from leakage_tasks.research.ethicist.experiment import differences
from leakage_tasks.research.ethicist.guesses import Measure, above, contrast, more, recall
from leakage_tasks.research.framework.group_tests import decide
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

DRAWN, LEAST = {"right": 74, "wrong": None}, {"right": 0.45, "wrong": 0.1}
"""What the paper's case shows: how often the right suffix was drawn, and the lowest token probabilities."""
NO_CASE = "no such case"
FEWEST_PAIRS = 5
"""Fewer bear no verdict on probabilities."""
Case = dict[str, Any]
Chosen = Callable[[Case], bool]


def misleading(case: Case) -> bool:
    """Whether the right suffix is chosen though its loss is the higher: the paper's case."""
    return case["right"]["place"] == 1 and case["right"]["nats"] > case["wrong"]["nats"]


def shown_case(trial: StudyTrial) -> Case | None:
    """The case of a trial that is shown: of those like the paper's the one with most draws between its suffixes.

    Where there is none, of those where the right suffix is chosen.
    """
    cases = trial.result["cases"]
    for wanted in (misleading, lambda case: case["right"]["place"] == 1):
        if found := [case for case in cases if wanted(case)]:
            return max(found, key=lambda case: (case["right"]["count"] - case["wrong"]["count"], -case["pair"]))
    return None


def figure_6(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """A case a seed, beside the paper's."""
    rows: list[TableRow] = [
        {
            "seed": "the paper",
            "suffix": side,
            "drawn": Published(DRAWN[side]),
            "lowest probability": Published(LEAST[side]),
        }
        for side in SIDES
    ]
    for trial in trials:
        case = shown_case(trial)
        seed = str(trial.config["seed"])
        rows += [_case_row(seed, case, side) for side in SIDES] if case else [{"seed": seed, "suffix": NO_CASE}]
    columns = ["seed", "pair", "suffix", "drawn", "loss (nats a token)", "confidence", "lowest probability", "tokens"]
    columns += ["prefix", "text"] if any("text" in row for row in rows) else []
    differ = "where they differ, calibrated confidence picks right guesses more often than loss"
    claims = [_there(trials), more(differ, (trials, recall("calibrated")), (trials, recall("perplexity")))]
    return Report(columns, rows, claims, [*differences(plan.scale), _shown(trials), _SELECTION])


def _case_row(seed: str, case: Case, side: str) -> TableRow:
    own = case[side]
    row: TableRow = {
        "seed": seed,
        "pair": case["pair"],
        "suffix": side,
        "drawn": own["count"],
        "loss (nats a token)": own["nats"],
        "confidence": own["confidence"],
        "lowest probability": min(own["chances"]),
        "tokens": own["marks"].replace(RIGHT, "=").replace("0", "x"),
    }
    # Written so that no control character gets into a table.
    return row | ({"prefix": repr(case["prefix"]), "text": repr(own["text"])} if "text" in own else {})


def _there(trials: Sequence[StudyTrial]) -> Claim:
    """The claim that the paper's case occurs, in every seed."""
    counts = [sum(map(misleading, trial.result["cases"])) for trial in trials]
    cases = ", ".join(f"{count} of {len(trial.result['cases'])}" for count, trial in zip(counts, trials, strict=True))
    words = "a right suffix of higher loss is chosen before a wrong one, for it is drawn more often"
    evidence = f"{cases} pairs with one right suffix among the two surest, a count a seed"
    return Claim(words, decide(all(counts), not any(counts)), evidence)


_SELECTION = (
    "A case is a pair of whose two surest suffixes one is right. Shown is, of those where the right one is chosen "
    "though its loss is higher, the one with most draws between them; where there is none, of those where it is chosen."
)


def _shown(trials: Sequence[StudyTrial]) -> str:
    marks = "A token that is right is '=', one that is wrong 'x'"
    if not natural(trials[0].config) or trials[0].config.get("reveal"):
        return f"{marks}."
    return f"{marks}; the text itself, which people wrote, is left out unless --reveal asks for it."


def lowest(side: str, chosen: Chosen = lambda case: True) -> Measure:
    """The mean over the chosen cases of the lowest probability of a token of one side; NaN where there is none."""

    def measure(trial: StudyTrial, weights: Any) -> Any:
        import numpy as np

        own = [case for case in trial.result["cases"] if chosen(case)]
        columns = weights[:, [case["number"] for case in own]]
        total = columns @ np.array([min(case[side]["chances"]) for case in own], dtype=np.float64)
        count = columns.sum(axis=1)
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    return measure


def figure_7(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The probability of drawing each token: means over all cases, and the case of Figure 6 of the first seed."""
    case = next((found for trial in trials if (found := shown_case(trial))), None)
    length = max((len(each["right"]["chances"]) for trial in trials for each in trial.result["cases"]), default=0)
    least: TableRow = {"position": LOWEST}
    for side in SIDES:
        least |= {
            f"{side}, published": Published(LEAST[side]),
            f"{side}, one case": min(case[side]["chances"]) if case else None,
        }
        least[side] = _mean(trials, side, None)
    rows: list[TableRow] = [least, *(_position(trials, case, place) for place in range(length))]
    words = "the lowest token probability is higher in right suffixes than in wrong ones"
    claims = [
        _higher(words, trials, lambda case: True),
        _higher(f"{words}, also where the right one's loss is higher", trials, misleading),
    ]
    return Report(list(rows[0]), rows, claims, [*differences(plan.scale), _SELECTION, _SCHEME, _TILTED])


def _higher(words: str, trials: Sequence[StudyTrial], chosen: Chosen) -> Claim:
    """The claim that of the chosen cases the right suffix has the higher lowest probability."""
    pairs = {case["pair"] for trial in trials for case in trial.result["cases"] if chosen(case)}
    # Drawn anew, one case is always itself: it would seem certain.
    if len(pairs) < FEWEST_PAIRS:
        return Claim(words, None, f"{len(pairs)} pairs, too few to tell")
    found = contrast((1.0, trials, lowest("right", chosen)), (-1.0, trials, lowest("wrong", chosen)))
    return above(words, found, f"{len(pairs)} pairs, right − wrong")


_SCHEME = (
    "Probabilities are those of drawing a token by top-p 0.7 at temperature 0.8; the paper does not say which it shows."
)

_TILTED = (
    "A right suffix of higher loss that is chosen was drawn more often than the wrong one, which goes with likely "
    "tokens: the comparison of these alone leans towards the claim."
)


def _position(trials: Sequence[StudyTrial], case: Case | None, place: int) -> TableRow:
    row: TableRow = {"position": place + 1}
    for side in SIDES:
        row |= {side: _mean(trials, side, place), f"{side}, one case": case[side]["chances"][place] if case else None}
    return row


def _mean(trials: Sequence[StudyTrial], side: str, place: int | None) -> Measured | None:
    """The mean over cases of the probability at a place, or of the lowest, over seeds."""
    found = [
        fmean(min(case[side]["chances"]) if place is None else case[side]["chances"][place] for case in cases)
        for trial in trials
        if (cases := trial.result["cases"])
    ]
    return Measured.over_seeds(found, 1.0) if found else None


register_case_study("figure-6", "a right and a wrong suffix side by side", "Figure 6", case_trials, figure_6, plot_6)
register_case_study(
    "figure-7", "token probabilities of right and wrong suffixes", "Figure 7", case_trials, figure_7, plot_7
)
