"""Tables 3 and 4 of Zhang, Wen and Huang (2023): ways of decoding, and what tells right predictions from wrong ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from leakage_tasks.research.ethicist.guesses import (
    Measure,
    Side,
    above,
    contrast,
    difference,
    early_stop,
    every,
    mean_of,
    measured,
    more,
    recall,
    recall_at,
)
from leakage_tasks.research.ethicist.settings import register_study, set_up
from leakage_tasks.research.ethicist.trials import DECODINGS, SEEDS, decoded, tuned
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Published, Report, TableRow

RIGHT_REPEATED = 85.38
"""Table 4's average repeat time of right predictions, quoted in section 5 with the recalls below."""
RECALL_AT = {1: 0.63, 3: None, 100: 0.69}
NEARLY = 0.02
"""How close recall@3 must be to recall@100 to count as equal."""


def table_3_trials(plan: StudyPlan) -> list[Config]:
    """Ethicist's prompt, decoded in four ways."""
    return [decoded(plan, seed, decoding) for decoding in DECODINGS for seed in plan.seeds(SEEDS[plan.scale])]


def table_3(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Recall and recall_early_stop by decoding; searches go by perplexity."""
    by_decoding = {name: [each for each in trials if each.config["decoding"] == name] for name in DECODINGS}
    confidence = {name: "perplexity" if name in ("greedy", "beam") else "calibrated" for name in DECODINGS}
    words = {"greedy": "greedy", "beam": "beam 10", "top-k": "top-k 10", "top-p": "top-p 0.7"}

    def side(name: str, measure: Callable[[str], Measure]) -> Side:
        return by_decoding[name], measure(confidence[name])

    rows: list[TableRow] = [
        {
            "decoding": words[name],
            "published": Published(None),
            "recall": measured(*side(name, recall)),
            "early stop": measured(*side(name, early_stop)),
        }
        for name in DECODINGS
    ]
    others = ("beam", "top-k", "top-p")
    claims = [
        every(
            f"greedy search does worst on {what}",
            {words[name]: difference(side(name, measure), side("greedy", measure)) for name in others},
        )
        for what, measure in (("recall", recall), ("recall_early_stop", early_stop))
    ]
    claims += [
        more("beam search beats top-p on recall", side("beam", recall), side("top-p", recall)),
        more("top-p beats beam search on recall_early_stop", side("top-p", early_stop), side("beam", early_stop)),
        more("top-p beats top-k on recall_early_stop", side("top-p", early_stop), side("top-k", early_stop)),
    ]
    note = "Top-k keeps 10 tokens at temperature 0.8, beam search 10 beams (the paper's Appendix A)."
    return Report(list(rows[0]), rows, claims, [*set_up(trials, plan), note])


def table_4_trials(plan: StudyPlan) -> list[Config]:
    """Ethicist."""
    return [tuned(plan, seed) for seed in plan.seeds(SEEDS[plan.scale])]


def table_4(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """What tells right predictions from wrong ones."""
    nats = math.log(2) / trials[0].result["suffix"]
    features = {
        "average confidence": ("confidence", 1.0, None),
        "average loss (nats a token)": ("bits", nats, None),
        "average repeat time": ("count", 1.0, RIGHT_REPEATED),
    }
    rows: list[TableRow] = [
        {
            "feature": name,
            "right, published": Published(published),
            "right": measured(trials, mean_of(field, right=True, scale=scale), math.inf),
            "wrong, published": Published(None),
            "wrong": measured(trials, mean_of(field, right=False, scale=scale), math.inf),
        }
        for name, (field, scale, published) in features.items()
    ]
    rows += [
        {"feature": f"recall@{k}", "all, published": Published(published), "all": measured(trials, recall_at(k))}
        for k, published in RECALL_AT.items()
    ]
    columns = ["feature", *(f"{who}{end}" for who in ("right", "wrong", "all") for end in (", published", ""))]
    note = "The published repeat time and recalls are quoted in the paper's section 5; the rest of Table 4 is lost."
    return Report(columns, rows, _table_4_claims(trials), [*set_up(trials, plan), note])


def _table_4_claims(trials: Sequence[StudyTrial]) -> list[Claim]:
    right, wrong = (mean_of("count", right=which) for which in (True, False))
    twice = contrast((1.0, trials, right), (-2.0, trials, wrong))
    at = {k: recall_at(k) for k in RECALL_AT}
    gap = contrast((-1.0, trials, at[100]), (1.0, trials, at[3]))
    return [
        above("right predictions are repeated at least twice as often as wrong ones", twice, "right − 2 × wrong"),
        more(
            "right predictions have the higher confidence",
            (trials, mean_of("confidence", right=True)),
            (trials, mean_of("confidence", right=False)),
        ),
        above(f"recall@3 is within {NEARLY} of recall@100", gap, "recall@3 − recall@100", -NEARLY),
        more("a better confidence has room: recall@100 is above recall@1", (trials, at[100]), (trials, at[1])),
    ]


register_study("table-3", "ways of decoding behind a prompt", "Table 3", table_3_trials, table_3)
register_study("table-4", "right and wrong predictions", "Table 4", table_4_trials, table_4)
