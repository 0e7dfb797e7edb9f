"""What a reference classifier adds to label search on the victims of Table 3; the paper has no such signal."""

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
"""Those of Table 3; in the lab where the loss alone does not find the canary already."""
WITHIN = (1, 10, 100)
GAIN = "gain (bits)"
ALL, NEVER = "all", "never planted"


def calibrated_trials(plan: StudyPlan) -> list[Config]:
    """The victims of Table 3."""
    seeds = plan.seeds(3 if plan.scale == "small" else SEEDS[plan.scale])
    return [victim(plan, seed, repetitions=r, penalties=[]) for r in REPETITIONS[plan.scale] for seed in seeds]


def calibrated_report(trials: Sequence[StudyTrial], plan: StudyPlan) -> Report:
    """Success and places by both signals; the gain is each canary's, a mean over its victims."""
    size = trials[0].result["alphabet"]
    copies = sorted({trial.config["repetitions"] for trial in trials}, reverse=True)
    own = {str(r): select(trials, repetitions=r) for r in copies}
    rows = [_row(name, some, "places") for name, some in own.items()]
    rows += [_row(ALL, trials, "places"), _row(NEVER, trials, "controls")]
    gains, controls = (list(canary_gains(trials, what)) for what in ("places", "controls"))
    claims = [
        _gained("beside a reference classifier the secrets' places are lower than by the loss alone", gains),
        _at_chance("controls stay at chance by the calibrated signal", trials, size),
    ]
    notes = (
        "The reference is trained like the victim, on its rows without anything planted, from another seed. An "
        "attacker needs rows of the same kind and labels for one.",
        f"{GAIN}: log2 of the place by the loss over the place by the calibrated signal; a canary that is planted in "
        "several victims of one seed counts once, by its mean.",
        f"Controls gain {show(mean_of_signed(controls))} bits.",
    )
    return report_of(rows, claims, trials, plan, *notes)


def canary_gains(trials: Iterable[StudyTrial], what: str) -> Iterable[float]:
    """By how many bits each canary's place is lower with a reference, the mean over the victims of its seed."""
    found: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for trial in trials:
        pairs = zip(*(trial.result[what][signal] for signal in SIGNALS), strict=True)
        for number, (by_loss, beside) in enumerate(pairs):
            found[trial.config["seed"], number].append(log2(by_loss) - log2(beside))
    return map(fmean, found.values())


def _row(name: str, trials: Sequence[StudyTrial], what: str) -> TableRow:
    row: TableRow = {"copies": name}
    for signal in SIGNALS:
        places = [place for trial in trials for place in trial.result[what][signal]]
        row |= {f"success@{k}, {signal}": Measured.rate(sum(p <= k for p in places), len(places)) for k in WITHIN}
        row[f"mean place, {signal}"] = round(2 ** fmean(map(log2, places)), 1)
    return row | {GAIN: mean_of_signed(list(canary_gains(trials, what)))}


def _gained(words: str, gains: Sequence[float]) -> Claim:
    """That gains are above 0: Wilcoxon's signed ranks, two-sided at 0.05."""
    from scipy import stats

    evidence = f"{show(mean_of_signed(gains))} bits"
    if not any(gains):
        return Claim(words, None, f"{evidence}; no difference")
    p = float(stats.wilcoxon(gains).pvalue)
    return Claim(words, decide(p < 0.05 and fmean(gains) > 0, p < 0.05 and fmean(gains) < 0), evidence, p)


def _at_chance(words: str, trials: Sequence[StudyTrial], size: int) -> Claim:
    """That the interval of controls' mean place holds that of random order."""
    places = [place for trial in trials for place in trial.result["controls"][CALIBRATED]]
    found, middle = Measured.mean(places, size), (size + 1) / 2
    holds = None if found.low is None or found.high is None else found.low <= middle <= found.high
    return Claim(words, holds, f"mean place {show(found)}, by chance {middle:.0f}")


registrar("elmahdy", "Elmahdy, Inan and Sim 2022", SCALES, run)(
    "calibrated",
    "label search beside a reference classifier",
    "not in the paper",
    calibrated_trials,
    calibrated_report,
)
