"""Figures 6 and 7 of Zhang, Wen and Huang (2023): a right and a wrong suffix compared token by token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from leakage_tasks.research.ethicist.case_plots import LOWEST, SIDES, plot_6, plot_7
from leakage_tasks.research.ethicist.case_trials import RIGHT, case_trials, natural, register_case_study
from leakage_tasks.research.ethicist.experiment import differences
from leakage_tasks.research.ethicist.guesses import Measure, above, contrast, more, recall
from leakage_tasks.research.framework.group_tests import decide
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

DRAWN, LEAST = {"right": 74, "wrong": None}, {"right": 0.45, "wrong": 0.1}
"""The paper's case: draws of the right suffix, and the lowest token probabilities."""
DRAWN_MORE = PaperClaim("a right suffix of higher loss is chosen, because it is drawn more often", "one case")
DISTINGUISHED = PaperClaim("calibrated confidence distinguishes it from a suffix of lower loss", "one case")
LOWEST_HIGHER = PaperClaim(
    "the lowest token probability of the right suffix is higher than the wrong one's", "0.45 vs 0.1, one case"
)
DESPITE_LOSS = PaperClaim("this holds although the right suffix has the higher loss", "one case")
NO_CASE = "no such case"
FEWEST_PAIRS = 5
"""Minimum number of pairs for a verdict on probabilities."""
Case = dict[str, Any]
Chosen = Callable[[Case], bool]


def misleading(case: Case) -> bool:
    """Return True if the right suffix is chosen although its loss is higher, as in the paper's case."""
    return case["right"]["place"] == 1 and case["right"]["nats"] > case["wrong"]["nats"]


def shown_case(trial: StudyTrial) -> Case | None:
    """Return the case of a trial for the report: among the cases like the paper's, the case with the largest difference
    of draws between its suffixes.

    If no case is like the paper's, choose among the cases in which the right suffix is chosen.
    """
    cases = trial.result["cases"]
    for condition in (misleading, lambda case: case["right"]["place"] == 1):
        if matches := [case for case in cases if condition(case)]:
            return max(matches, key=lambda case: (case["right"]["count"] - case["wrong"]["count"], -case["pair"]))
    return None


def figure_6(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report a case per seed, and the paper's case."""
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
    differ = DISTINGUISHED.test("right guesses where they differ")
    claims = [_there(trials), more(differ, (trials, recall("calibrated")), (trials, recall("perplexity")))]
    return Report(columns, rows, claims, [*differences(plan.scale), _shown(trials), _SELECTION])


def _case_row(seed: str, case: Case, side: str) -> TableRow:
    suffix = case[side]
    row: TableRow = {
        "seed": seed,
        "pair": case["pair"],
        "suffix": side,
        "drawn": suffix["count"],
        "loss (nats a token)": suffix["nats"],
        "confidence": suffix["confidence"],
        "lowest probability": min(suffix["chances"]),
        "tokens": suffix["marks"].replace(RIGHT, "=").replace("0", "x"),
    }
    # repr keeps control characters out of the table.
    return row | ({"prefix": repr(case["prefix"]), "text": repr(suffix["text"])} if "text" in suffix else {})


def _there(trials: Sequence[StudyTrial]) -> Claim:
    """Return the claim that the paper's case occurs in every seed."""
    counts = [sum(map(misleading, trial.result["cases"])) for trial in trials]
    cases = ", ".join(f"{count} of {len(trial.result['cases'])}" for count, trial in zip(counts, trials, strict=True))
    evidence = f"{cases} pairs with one right suffix among the two surest, by seed"
    return Claim(DRAWN_MORE.words, decide(all(counts), not any(counts)), evidence)


_SELECTION = (
    "A case is a pair whose two surest suffixes are one right and one wrong. The table shows the case with the most "
    "draws between them, among cases in which the right suffix is chosen, if possible although its loss is higher."
)


def _shown(trials: Sequence[StudyTrial]) -> str:
    marks = "A right token is '=', a wrong token 'x'"
    if not natural(trials[0].config) or trials[0].config.get("reveal"):
        return f"{marks}."
    return f"{marks}; the text itself, which people wrote, is omitted without --reveal."


def lowest(side: str, chosen: Chosen = lambda case: True) -> Measure:
    """Return a measure: the mean over the chosen cases of a side's lowest token probability; NaN without cases."""

    def measure(trial: StudyTrial, weights: Any) -> Any:
        import numpy as np

        cases = [case for case in trial.result["cases"] if chosen(case)]
        columns = weights[:, [case["number"] for case in cases]]
        total = columns @ np.array([min(case[side]["chances"]) for case in cases], dtype=np.float64)
        count = columns.sum(axis=1)
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    return measure


def figure_7(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report the probability of sampling each token: means over all cases, and the first seed's case of Figure 6."""
    case = next((first_case for trial in trials if (first_case := shown_case(trial))), None)
    length = max((len(item["right"]["chances"]) for trial in trials for item in trial.result["cases"]), default=0)
    least: TableRow = {"position": LOWEST}
    for side in SIDES:
        least |= {
            f"{side}, published": Published(LEAST[side]),
            f"{side}, one case": min(case[side]["chances"]) if case else None,
        }
        least[side] = _mean(trials, side, None)
    rows: list[TableRow] = [least, *(_position(trials, case, position) for position in range(length))]
    claims = [
        _higher(LOWEST_HIGHER.words, trials, lambda case: True),
        _higher(DESPITE_LOSS.words, trials, misleading),
    ]
    return Report(list(rows[0]), rows, claims, [*differences(plan.scale), _SELECTION, _SCHEME, _TILTED])


def _higher(words: str, trials: Sequence[StudyTrial], chosen: Chosen) -> Claim:
    """Return the claim that the right suffix has the higher lowest probability in the chosen cases."""
    pairs = {case["pair"] for trial in trials for case in trial.result["cases"] if chosen(case)}
    # Resampling a single case always returns it, so the result would seem certain.
    if len(pairs) < FEWEST_PAIRS:
        return Claim(words, None, f"{len(pairs)} pairs, too few")
    probability_contrast = contrast((1.0, trials, lowest("right", chosen)), (-1.0, trials, lowest("wrong", chosen)))
    return above(words, probability_contrast, f"{len(pairs)} pairs, right − wrong")


_SCHEME = "Probabilities are for sampling with top-p 0.7 at temperature 0.8; the paper does not name its scheme."

_TILTED = (
    "A right suffix with a higher loss is only chosen if it was drawn more often than the wrong one, which favours "
    "likely tokens: the comparison of these cases is biased towards the claim."
)


def _position(trials: Sequence[StudyTrial], case: Case | None, position: int) -> TableRow:
    row: TableRow = {"position": position + 1}
    for side in SIDES:
        row |= {
            side: _mean(trials, side, position),
            f"{side}, one case": case[side]["chances"][position] if case else None,
        }
    return row


def _mean(trials: Sequence[StudyTrial], side: str, position: int | None) -> Measured | None:
    """Return the mean over cases and seeds of the probability at a position, or of the lowest probability."""
    means = [
        fmean(min(case[side]["chances"]) if position is None else case[side]["chances"][position] for case in cases)
        for trial in trials
        if (cases := trial.result["cases"])
    ]
    return Measured.over_seeds(means, 1.0) if means else None


register_case_study("figure-6", "a right and a wrong suffix compared", "Figure 6", case_trials, figure_6, plot_6)
register_case_study(
    "figure-7", "token probabilities of right and wrong suffixes", "Figure 7", case_trials, figure_7, plot_7
)
