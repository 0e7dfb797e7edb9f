"""Studies beyond Zhang, Wen and Huang (2023): recall predicted without sampling, and a trained confidence."""

from __future__ import annotations

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
    """Report the share of suffixes drawn, and the share predicted by p_z."""
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
        "'Expected' is the mean of 1 − (1 − p_z)^draws with p_z from one teacher-forced forward pass; its interval "
        "contains the share drawn in 95 % of runs (Poisson binomial, all seeds); 'drawn' is the share drawn at least "
        "once."
    )
    return Report(list(rows[0]), rows, claims, [*differences(plan.scale), note])


def expected_share(trials: Sequence[StudyTrial], draws: int) -> Measured:
    """Return the expected share of suffixes among ``draws`` draws, with the interval of 95 % of runs."""
    from leakage_tasks.metrics.aggregates import BY_CHANCE
    from leakage_tasks.metrics.suffix_values import probability_of, within

    chances = [within(draws, probability_of(bits)) or 0.0 for trial in trials for bits in trial.result["p_z_bits"]]
    return Measured(sum(chances) / len(chances), BY_CHANCE.low(chances), BY_CHANCE.high(chances), len(chances))


def drawn_share(trials: Sequence[StudyTrial], draws: int) -> Measured | None:
    """Return the share of suffixes that are among the first ``draws`` draws."""
    view = f"samples_{draws}"
    return measured(trials, recall_at(draws, view=view if view in trials[0].result["views"] else HEADLINE))


def _agree(words: str, expected: Measured, drawn: Measured | None) -> Claim:
    assert drawn is not None
    assert expected.low is not None
    assert expected.high is not None
    # The interval ends at possible shares; a mean over seeds may differ from them by rounding.
    holds = expected.low - 1e-9 <= drawn.value <= expected.high + 1e-9
    figures = f"expected {expected.value:.4f} [{expected.low:.4f}, {expected.high:.4f}], drawn {drawn.value:.4f}"
    return Claim(f"{words}: the share drawn agrees with p_z", holds, figures)


def confidence_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report confidences on common draws, with their own guesses and as an order of the calibrated guesses."""
    group = by_setting(trials)[SMOOTH]
    rows: list[TableRow] = [
        {
            "confidence": words,
            "published": Published(None),
            **{column: measured(group, measure(name)) for column, measure in MEASURES.items()},
            "early stop, same guesses": measured(group, early_stop(ordered_by=name)),
        }
        for name, words in CONFIDENCES.items()
        if name in group[0].result["views"][HEADLINE]
    ]
    calibrated, claim_text = (group, early_stop("calibrated")), "it has the higher recall_early_stop"
    picks = "trained confidence picks more right guesses than calibrated"
    claims = [
        more(picks, (group, recall("trained")), (group, recall("calibrated"))),
        more(f"with its own guesses {claim_text}", (group, early_stop("trained")), calibrated),
        more(f"ordering these guesses {claim_text}", (group, early_stop(ordered_by="trained")), calibrated),
    ]
    note = "The trained confidence is a logistic model fitted on draws after the validation prefixes of each seed."
    return Report(list(rows[0]), rows, claims, [*set_up(group, plan), note])


register_study(
    "probability",
    "recall predicted by p_z in one forward pass, against recall over draws",
    "beyond the paper: p_z as in Hayes et al. 2024",
    main_trials,
    probability_report,
)
register_study(
    "confidence",
    "a trained confidence against calibrated and other confidences",
    "left open in section 5",
    table_4_trials,
    confidence_report,
)
