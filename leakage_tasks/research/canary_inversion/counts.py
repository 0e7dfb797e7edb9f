"""Counting trials of the NLU studies: accuracy, Hamming distance per token, and the claims that rest on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev

from leakage_tasks.research.canary_inversion.experiment import SNIPS, differences, ground_at
from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, decide, decide_all, ranked
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured

ALPHABET = {"color": 12, "pin": 10, "call": 10}
MARGIN = 0.15
"""How far below chance an interval may begin and still be said to be at chance, or near it."""
FEWEST = 4
"""Fewer trials bear no verdict about chance: Student's interval of two or three such distances is too often short."""
RELAXED, FINISHED = "relaxed", "finished"
"""The attack's answer as the paper has it, and after the discrete finish, which is ours."""
EVERY = "all three"
"""The patterns taken together, each victim's mean over them."""


def chance(pattern: str) -> float:
    """HDT of a random filling, 1 − 1/|V0|; of all patterns, the mean of theirs."""
    return fmean(map(chance, ALPHABET)) if pattern == EVERY else 1 - 1 / ALPHABET[pattern]


def distances(found: Sequence[Config], attack: str = "published", when: str = RELAXED) -> list[float]:
    """Each canary's Hamming distance per token (section 4.3)."""
    return [fmean(entry["attacks"][attack][when]) for entry in found if attack in entry["attacks"]]


def hdt(found: Sequence[Config], attack: str = "published", when: str = RELAXED) -> Measured | None:
    """Their mean with Student's interval; None without trials."""
    return mean_distance(distances(found, attack, when))


def pooled(groups: Iterable[Sequence[float]]) -> Measured | None:
    """The mean over groups of the same seeds, such as several R, each seed counted once: they share their secrets."""
    return mean_distance([fmean(each) for each in zip(*groups, strict=True)])


def mean_distance(values: Sequence[float]) -> Measured | None:
    """A mean of distances with Student's interval, which stays between 0 and 1; None without any.

    Where all are 0 the upper end is that of the share of canaries that do not come out whole.
    """
    from scipy import stats

    from leakage_tasks.stats.intervals import LEVEL, at_most

    if not values:
        return None
    mean, count = fmean(values), len(values)
    if not any(values):
        return Measured(0.0, 0.0, at_most(0, count), count)
    if count == 1:
        return Measured(mean, None, None, 1)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * stdev(values) / math.sqrt(count)
    return Measured(mean, max(mean - reach, 0.0), min(mean + reach, 1.0), count)


def accuracy(found: Sequence[Config], attack: str = "published", when: str = RELAXED) -> Measured | None:
    """The share of canaries that come out whole; None without trials."""
    values = distances(found, attack, when)
    return Measured.rate(values.count(0.0), len(values)) if values else None


def exposure(found: Sequence[Config], pattern: str) -> Measured | str | None:
    """Mean exposure of the true fillings in bits; where some are lower bounds alone, so is the mean."""
    slots = max((len(entry["attacks"]["published"][RELAXED]) for entry in found), default=0)
    return exposure_up_to(slots * math.log2(ALPHABET[pattern]), found)


def exposure_up_to(most: float, found: Sequence[Config]) -> Measured | str | None:
    """The same of canaries whose exposure is ``most`` bits at most."""
    values = [entry["exposure"] for entry in found]
    if any(entry["method"] == "lower_bound" for entry in found):
        return f"≥ {fmean(values):.3g} n={len(values)}"
    return Measured.mean(values, most) if values else None


def below_chance(words: str, groups: Mapping[str, Measured | None], levels: Callable[[str], float] = chance) -> Claim:
    """That the whole interval of each group's HDT is below chance, which ``levels`` gives: of patterns, theirs.

    One that holds it and begins more than 0.15 below is too wide to tell.
    """
    return _compared(words, groups, lambda low, high, level: decide(high < level, low >= level - MARGIN), levels)


def at_chance(words: str, groups: Mapping[str, Measured | None]) -> Claim:
    """That the interval of each pattern's HDT holds that of a random filling and begins no more than 0.15 below it.

    One that begins lower is too wide to tell; one that ends below is better than chance.
    """
    return _compared(
        words, groups, lambda low, high, level: decide(high >= level and low >= level - MARGIN, high < level)
    )


def near_chance(words: str, groups: Mapping[str, Measured | None]) -> Claim:
    """That the interval of each HDT begins no more than 0.15 below chance, also where it shows a small advantage."""
    return _compared(words, groups, lambda low, high, level: decide(low >= level - MARGIN, high < level - MARGIN))


def _compared(
    words: str,
    groups: Mapping[str, Measured | None],
    test: Callable[[float, float, float], bool | None],
    levels: Callable[[str], float] = chance,
) -> Claim:
    verdicts, shown = [], []
    for pattern, found in groups.items():
        if found is None or found.low is None or found.high is None or (found.count or 0) < FEWEST:
            return Claim(words, None, "too few trials to tell")
        verdicts.append(test(found.low, found.high, levels(pattern)))
        figures = f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}] n={found.count}"
        shown.append(f"{pattern}: {figures}, chance {levels(pattern):.3g}")
    return Claim(words, decide_all(verdicts), "; ".join(shown))


def lower(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """That one group's HDT is the lower."""
    return ranked(words, one, other, above=False, digits=2)


def closer(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """That one answer to the same canaries has the lower HDT: Wilcoxon's signed ranks, two-sided at 0.05."""
    from scipy import stats

    changes = [left - right for left, right in zip(one, other, strict=True)]
    if not any(changes):
        return Claim(words, None, f"no difference in {len(changes)} canaries")
    p, p_less = (float(stats.wilcoxon(changes, alternative=each).pvalue) for each in ("two-sided", "less"))
    evidence = f"{fmean(one):.2f} against {fmean(other):.2f}; p = {p:.2g}, {len(changes)} pairs"
    return Claim(words, None if p >= SIGNIFICANCE else p_less < 0.5, evidence, p)


def alike(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """That two groups' mean HDT differs by 0.15 at most: Welch's 95 % interval of the difference lies within that."""
    from scipy import stats

    if min(len(one), len(other)) < FEWEST or len({*one}) == len({*other}) == 1:
        return Claim(words, None, "too few trials to tell")
    apart = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    holds = decide(apart.low >= -MARGIN and apart.high <= MARGIN, apart.low > MARGIN or apart.high < -MARGIN)
    shown = f"{fmean(one):.2f} and {fmean(other):.2f}; a difference of {apart.low:.2f} to {apart.high:.2f}"
    return Claim(words, holds, f"{shown}, n = {len(one)}, {len(other)}")


def rises(words: str, rows: Sequence[Sequence[float]]) -> Claim:
    """That HDT rises from column to column in rows of the same victims or seeds: Page's test, two-sided at 0.05."""
    from scipy import stats

    if not rows or min(map(len, rows)) < 3:
        return Claim(words, None, "too few settings to tell")
    up, down = (float(stats.page_trend_test(each).pvalue) for each in (rows, [row[::-1] for row in rows]))
    means = ", ".join(f"{fmean(column):.2f}" for column in zip(*rows, strict=True))
    p = min(1.0, 2 * min(up, down))
    return Claim(words, None if p >= SIGNIFICANCE else up < down, f"{means}; p = {p:.2g}, {len(rows)} rows", p)


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan, data: str = SNIPS) -> list[str]:
    """How the studies differ from the paper's in one set, and what its victims get right."""
    own = [trial for trial in trials if trial.config["ground"]["data"] == ground_at(plan.scale, data).data]
    right, f1 = ([trial.result[name] for trial in own] for name in ("intent_accuracy", "slot_f1"))
    return [
        *differences(plan, data),
        f"The victims get {100 * fmean(right):.1f} % of test intents right; slot F1 {100 * fmean(f1):.1f}.",
    ]
