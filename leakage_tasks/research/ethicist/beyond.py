"""Beyond Zhang, Wen and Huang (2023): recall foretold without sampling, and a confidence that is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.research.ethicist.experiment import differences
from leakage_tasks.research.ethicist.figures import main_trials
from leakage_tasks.research.ethicist.guesses import MEASURES, early_stop, measured, more, recall, recall_at
from leakage_tasks.research.ethicist.tables import table_4_trials
from leakage_tasks.research.ethicist.trials import SMOOTH, UNTUNED, by_setting, register_study, set_up
from leakage_tasks.research.framework.registry import StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured, Published, Report, TableRow

CONFIDENCES = {
    "perplexity": "Perplexity",
    "comparing_lm": "Comparing (LM)",
    "zlib": "Comparing (zlib)",
    "calibrated": "Calibrated",
    "trained": "Trained",
}
SETTINGS = {UNTUNED: "no prompt", SMOOTH: "Ethicist's prompt"}


def probability_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """The share of suffixes drawn, beside what p_z foretells of it."""
    settings = by_setting(trials)
    config = trials[0].config
    counts = sorted({*config["sweeps"]["sample_counts"], config["samples"]})
    rows, claims = list[TableRow](), []
    for setting, words in SETTINGS.items():
        for count in counts:
            expected, drawn = expected_share(settings[setting], count), drawn_share(settings[setting], count)
            row: TableRow = {"model": words, "draws": count, "published": Published(None)}
            rows.append(row | {"expected": expected, "drawn": drawn})
        claims.append(_agree(words, expected, drawn))
    note = (
        "'Expected' is the mean of 1 − (1 − p_z)^draws, p_z from one teacher-forced pass, with where the share drawn "
        "falls in 95 % of runs (Poisson binomial, all seeds together); 'drawn' is the share drawn at least once."
    )
    return Report(list(rows[0]), rows, claims, [*differences(plan.scale), note])


def expected_share(trials: Sequence[StudyTrial], draws: int) -> Measured:
    """The expected share of suffixes among ``draws`` draws, with where the share drawn falls in 95 % of runs."""
    from leakage_tasks.metrics.aggregates import BY_CHANCE

    chances = [_within(bits, draws) for trial in trials for bits in trial.result["p_z_bits"]]
    return Measured(sum(chances) / len(chances), BY_CHANCE.low(chances), BY_CHANCE.high(chances), len(chances))


def drawn_share(trials: Sequence[StudyTrial], draws: int) -> Measured | None:
    """The share of suffixes that were among the first ``draws`` draws."""
    view = f"samples_{draws}"
    return measured(trials, recall_at(draws, view=view if view in trials[0].result["views"] else HEADLINE))


def _within(bits: float | None, draws: int) -> float:
    if bits is None:
        return 0.0
    probability = min(1.0, 2.0**-bits)
    return 1.0 if probability == 1 else -math.expm1(draws * math.log1p(-probability))


def _agree(words: str, expected: Measured, drawn: Measured | None) -> Claim:
    assert drawn is not None
    assert expected.low is not None
    assert expected.high is not None
    # The interval holds shares that can be had; a mean over seeds misses them by rounding.
    holds = expected.low - 1e-9 <= drawn.value <= expected.high + 1e-9
    figures = f"expected {expected.value:.4f} [{expected.low:.4f}, {expected.high:.4f}], drawn {drawn.value:.4f}"
    return Claim(f"{words}: the share drawn is what p_z foretells", holds, figures)


def confidence_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Confidences on the same draws, each with guesses of its own and as the order of the calibrated one's."""
    own = by_setting(trials)[SMOOTH]
    rows: list[TableRow] = [
        {
            "confidence": words,
            "published": Published(None),
            **{what: measured(own, measure(name)) for what, measure in MEASURES.items()},
            "early stop, same guesses": measured(own, early_stop(ordered_by=name)),
        }
        for name, words in CONFIDENCES.items()
        if name in own[0].result["views"][HEADLINE]
    ]
    calibrated, higher = (own, early_stop("calibrated")), "it has the higher recall_early_stop"
    picks = "trained confidence picks more right guesses than calibrated"
    claims = [
        more(picks, (own, recall("trained")), (own, recall("calibrated"))),
        more(f"with guesses of its own {higher}", (own, early_stop("trained")), calibrated),
        more(f"ordering the same guesses {higher}", (own, early_stop(ordered_by="trained")), calibrated),
    ]
    note = "The trained confidence is a logistic model fitted on the draws after the validation prefixes of each seed."
    return Report(list(rows[0]), rows, claims, [*set_up(own, plan), note])


register_study(
    "probability",
    "recall foretold from p_z in one pass, against recall over draws",
    "beyond it: p_z as in Hayes et al. 2024",
    main_trials,
    probability_report,
)
register_study(
    "confidence",
    "a trained confidence against calibrated and others",
    "left open in section 5",
    table_4_trials,
    confidence_report,
)
