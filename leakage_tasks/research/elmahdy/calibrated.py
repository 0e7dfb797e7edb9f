"""A study of label search with a reference classifier on the victims of Table 3; this signal is not in the paper."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import log2
from statistics import fmean

from leakage_tasks.attacks.signal import CALIBRATED
from leakage_tasks.research.elmahdy.calibrated_trials import SIGNALS, run
from leakage_tasks.research.elmahdy.counts import report_of, select
from leakage_tasks.research.elmahdy.trials import SCALES, SEEDS, victim
from leakage_tasks.research.framework.gains import mean_of_signed
from leakage_tasks.research.framework.group_tests import decide
from leakage_tasks.research.framework.registry import Config, Scale, StudyPlan, StudyTrial, registrar
from leakage_tasks.research.framework.report import Claim, Measured, Report, TableRow, show

REPETITIONS: Mapping[Scale, Sequence[int]] = {"smoke": (100,), "small": (25, 10), "paper": (100, 50, 25, 10)}
"""Repetitions in Table 3. At ``small``, those at which the loss alone does not already find the canary."""
WITHIN = (1, 10, 100)
GAIN = "gain (bits)"
ALL, NEVER = "all", "never planted"


def calibrated_trials(plan: StudyPlan) -> list[Config]:
    """List trials with the victims of Table 3."""
    seeds = plan.seeds(3 if plan.scale == "small" else SEEDS[plan.scale])
    return [victim(plan, seed, repetitions=r, penalties=[]) for r in REPETITIONS[plan.scale] for seed in seeds]


def calibrated_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Report success and ranks by both signals. The gain is a mean over canaries, each averaged over its victims."""
    size = trials[0].result["alphabet"]
    copies = sorted({trial.config["repetitions"] for trial in trials}, reverse=True)
    by_copies = {str(r): select(trials, repetitions=r) for r in copies}
    rows = [_row(name, group, "places") for name, group in by_copies.items()]
    rows += [_row(ALL, trials, "places"), _row(NEVER, trials, "controls")]
    gains, controls = (list(canary_gains(trials, entry)) for entry in ("places", "controls"))
    claims = [
        _gained("with a reference classifier the secrets' ranks are lower than by the loss alone", gains),
        _at_chance("controls stay at chance by the calibrated signal", trials, size),
    ]
    notes = (
        "The reference is trained like the victim on its rows without canaries, with another seed. An "
        "attacker needs similar labelled rows to train it.",
        f"{GAIN}: log2 of the rank by the loss over the rank by the calibrated signal; a canary that is planted in "
        "several victims of one seed counts once, by its mean.",
        f"Controls gain {show(mean_of_signed(controls))} bits.",
    )
    return report_of(rows, claims, trials, plan, *notes)


def canary_gains(trials: Iterable[StudyTrial], what: str) -> Iterable[float]:
    """Yield, for each canary, the bits by which a reference lowers its rank, averaged over the victims of its seed."""
    gains: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for trial in trials:
        pairs = zip(*(trial.result[what][signal] for signal in SIGNALS), strict=True)
        for number, (by_loss, by_calibrated) in enumerate(pairs):
            gains[trial.config["seed"], number].append(log2(by_loss) - log2(by_calibrated))
    return map(fmean, gains.values())


def _row(name: str, trials: Sequence[StudyTrial], entry: str) -> TableRow:
    row: TableRow = {"copies": name}
    for signal in SIGNALS:
        ranks = [rank for trial in trials for rank in trial.result[entry][signal]]
        row |= {f"success@{k}, {signal}": Measured.rate(sum(p <= k for p in ranks), len(ranks)) for k in WITHIN}
        row[f"mean place, {signal}"] = round(2 ** fmean(map(log2, ranks)), 1)
    return row | {GAIN: mean_of_signed(list(canary_gains(trials, entry)))}


def _gained(words: str, gains: Sequence[float]) -> Claim:
    """Return the claim that gains are above 0, by Wilcoxon's two-sided signed-rank test at 0.05."""
    from scipy import stats

    evidence = f"{show(mean_of_signed(gains))} bits"
    if not any(gains):
        return Claim(words, None, f"{evidence}; no difference")
    p = float(stats.wilcoxon(gains).pvalue)
    return Claim(words, decide(p < 0.05 and fmean(gains) > 0, p < 0.05 and fmean(gains) < 0), evidence, p)


def _at_chance(words: str, trials: Sequence[StudyTrial], size: int) -> Claim:
    """Return the claim that the interval of the controls' mean rank contains that of random order."""
    ranks = [rank for trial in trials for rank in trial.result["controls"][CALIBRATED]]
    mean, middle = Measured.mean(ranks, size), (size + 1) / 2
    holds = None if mean.low is None or mean.high is None else mean.low <= middle <= mean.high
    return Claim(words, holds, f"mean rank {show(mean)}, by chance {middle:.0f}")


registrar("elmahdy", "Elmahdy, Inan and Sim 2022", SCALES, run)(
    "calibrated",
    "label search with a reference classifier",
    "not in the paper",
    calibrated_trials,
    calibrated_report,
)
