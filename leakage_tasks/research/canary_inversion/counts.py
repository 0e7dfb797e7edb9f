"""Accuracy and Hamming distance per token (HDT) in trials of the NLU studies, and claims about them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, stdev

from leakage_tasks.research.canary_inversion.experiment import SNIPS, differences, ground_at
from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, decide, decide_all, ranked
from leakage_tasks.research.framework.papers import PaperClaim
from leakage_tasks.research.framework.registry import Config, StudyPlan, StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured

ALPHABET = {"color": 12, "pin": 10, "call": 10}
MARGIN = 0.15
"""Distance in HDT: an interval that begins less than this below chance still counts as near chance."""
FEWEST = 4
"""Minimum number of trials for a verdict about chance: for smaller samples Student's interval is often too short."""
RELAXED, FINISHED = "relaxed", "finished"
"""Names of the attack's answers: as in the paper, and after this project's discrete search."""
EVERY = "all three"
"""All patterns pooled: each victim's mean over them."""
AXIS = "Hamming distance per token"
"""Label of HDT in plots."""
BEATS_GUESS = PaperClaim("the attack beats random guess (HDT below chance)")
"""A claim about several tables and figures."""


def chance(pattern: str) -> float:
    """Return the Hamming distance per token (HDT) of a random filling, 1 − 1/|V0|; for all patterns, return the
    mean."""
    return fmean(map(chance, ALPHABET)) if pattern == EVERY else 1 - 1 / ALPHABET[pattern]


def distances(entries: Sequence[Config], attack: str = "published", when: str = RELAXED) -> list[float]:
    """Return each canary's Hamming distance per token (section 4.3)."""
    return [fmean(entry["attacks"][attack][when]) for entry in entries if attack in entry["attacks"]]


def hdt(entries: Sequence[Config], attack: str = "published", when: str = RELAXED) -> Measured | None:
    """Return the mean distance with Student's interval, or None without trials."""
    return mean_distance(distances(entries, attack, when))


def pooled(groups: Iterable[Sequence[float]]) -> Measured | None:
    """Return the mean over groups with equal seeds, such as several R.

    Each seed counts once because its secrets are shared.
    """
    return mean_distance([fmean(values) for values in zip(*groups, strict=True)])


def mean_distance(values: Sequence[float]) -> Measured | None:
    """Return a mean distance with Student's interval within [0, 1], or None without values.

    If all values are 0, the upper end is that of the share of canaries not extracted completely.
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


def accuracy(entries: Sequence[Config], attack: str = "published", when: str = RELAXED) -> Measured | None:
    """Return the share of canaries extracted completely, or None without trials."""
    values = distances(entries, attack, when)
    return Measured.rate(values.count(0.0), len(values)) if values else None


def exposure(entries: Sequence[Config], pattern: str) -> Measured | str | None:
    """Return the mean exposure of the true fillings in bits, as a lower bound if some values are lower bounds."""
    slots = max((len(entry["attacks"]["published"][RELAXED]) for entry in entries), default=0)
    return exposure_up_to(slots * math.log2(ALPHABET[pattern]), entries)


def exposure_up_to(most: float, entries: Sequence[Config]) -> Measured | str | None:
    """Return the mean exposure of canaries whose largest possible exposure is ``most`` bits."""
    values = [entry["exposure"] for entry in entries]
    if any(entry["method"] == "lower_bound" for entry in entries):
        return f"≥ {fmean(values):.3g} n={len(values)}"
    return Measured.mean(values, most) if values else None


def below_chance(words: str, groups: Mapping[str, Measured | None], levels: Callable[[str], float] = chance) -> Claim:
    """Return the claim that each group's interval of HDT is below chance. ``levels`` returns a group's chance.

    An interval that contains chance and begins more than 0.15 below it is inconclusive.
    """
    return _compared(words, groups, lambda low, high, level: decide(high < level, low >= level - MARGIN), levels)


def at_chance(words: str, groups: Mapping[str, Measured | None]) -> Claim:
    """Return the claim that each interval of HDT contains chance and begins no more than 0.15 below it.

    An interval that begins lower is inconclusive. An interval that ends below chance refutes the claim.
    """
    return _compared(
        words, groups, lambda low, high, level: decide(high >= level and low >= level - MARGIN, high < level)
    )


def near_chance(words: str, groups: Mapping[str, Measured | None]) -> Claim:
    """Return the claim that each interval of HDT begins no more than 0.15 below chance, even if it shows a small
    advantage."""
    return _compared(words, groups, lambda low, high, level: decide(low >= level - MARGIN, high < level - MARGIN))


def _compared(
    words: str,
    groups: Mapping[str, Measured | None],
    test: Callable[[float, float, float], bool | None],
    levels: Callable[[str], float] = chance,
) -> Claim:
    verdicts, shown = [], []
    for pattern, measured in groups.items():
        if measured is None or measured.low is None or measured.high is None or (measured.count or 0) < FEWEST:
            return Claim(words, None, "too few trials")
        verdicts.append(test(measured.low, measured.high, levels(pattern)))
        figures = f"{measured.value:.2f} [{measured.low:.2f}, {measured.high:.2f}] n={measured.count}"
        shown.append(f"{pattern}: {figures}, chance {levels(pattern):.3g}")
    return Claim(words, decide_all(verdicts), "; ".join(shown))


def lower(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """Return the claim that the first group has the lower HDT."""
    return ranked(words, one, other, above=False, digits=2)


def closer(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """Return the claim that one answer to each canary has the lower HDT than another, by Wilcoxon's two-sided test at
    0.05."""
    from scipy import stats

    changes = [left - right for left, right in zip(one, other, strict=True)]
    if not any(changes):
        return Claim(words, None, f"no difference in {len(changes)} canaries")
    p, p_less = (float(stats.wilcoxon(changes, alternative=side).pvalue) for side in ("two-sided", "less"))
    evidence = f"{fmean(one):.2f} against {fmean(other):.2f}; p = {p:.2g}, {len(changes)} pairs"
    return Claim(words, None if p >= SIGNIFICANCE else p_less < 0.5, evidence, p)


def alike(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """Return the claim that mean HDT of two groups differs by at most 0.15, by Welch's 95 % interval of the
    difference."""
    from scipy import stats

    if min(len(one), len(other)) < FEWEST or len({*one}) == len({*other}) == 1:
        return Claim(words, None, "too few trials")
    interval = stats.ttest_ind(one, other, equal_var=False).confidence_interval(0.95)
    holds = decide(
        interval.low >= -MARGIN and interval.high <= MARGIN, interval.low > MARGIN or interval.high < -MARGIN
    )
    shown = f"{fmean(one):.2f} and {fmean(other):.2f}; a difference of {interval.low:.2f} to {interval.high:.2f}"
    return Claim(words, holds, f"{shown}, n = {len(one)}, {len(other)}")


def rises(words: str, rows: Sequence[Sequence[float]]) -> Claim:
    """Return the claim that HDT rises from column to column in rows of one victim or seed, by Page's two-sided test at
    0.05."""
    from scipy import stats

    if not rows or min(map(len, rows)) < 3:
        return Claim(words, None, "too few settings")
    up, down = (float(stats.page_trend_test(table).pvalue) for table in (rows, [row[::-1] for row in rows]))
    means = ", ".join(f"{fmean(column):.2f}" for column in zip(*rows, strict=True))
    p = min(1.0, 2 * min(up, down))
    return Claim(words, None if p >= SIGNIFICANCE else up < down, f"{means}; p = {p:.2g}, {len(rows)} rows", p)


def set_up(trials: Sequence[StudyTrial], plan: StudyPlan, data: str = SNIPS) -> list[str]:
    """List the differences from the paper's set-up on one data set, and the victims' accuracy."""
    group = [trial for trial in trials if trial.config["ground"]["data"] == ground_at(plan.scale, data).data]
    accuracies, f1 = ([trial.result[name] for trial in group] for name in ("intent_accuracy", "slot_f1"))
    return [
        *differences(plan, data),
        f"The victims' accuracy is {100 * fmean(accuracies):.1f} % on test intents; slot F1 is {100 * fmean(f1):.1f}.",
    ]
