"""Claims of The Secret Sharer's studies, tested on exposures of several models."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from statistics import fmean

from leakage_tasks.research.framework.group_tests import SIGNIFICANCE, decide, no_difference, ranked
from leakage_tasks.research.framework.report import Claim

SHOWN = 10
"""Maximum number of means listed in the evidence of a claim."""
CHANCE = math.log2(1 / SIGNIFICANCE)
"""Exposure in bits that an unseen secret exceeds with a probability of 0.05."""


def grows(words: str, exposures: Mapping[int, Sequence[float]] | Mapping[float, Sequence[float]]) -> Claim:
    """Return the claim that exposure grows with a number, by Kendall's rank correlation over all exposures, two-sided
    at 0.05."""
    points = [(level, value) for level, values in exposures.items() for value in values]
    shown = ", ".join(f"{level:g}: {fmean(values):.1f}" for level, values in exposures.items() if values)
    return rises(words, points, f"{shown} bits; " if len(exposures) <= SHOWN else "")


def rises(words: str, points: Sequence[tuple[float, float]], shown: str = "", *, sign: int = 1) -> Claim:
    """Return the claim that the second of two numbers grows with the first, by Kendall's test; evidence begins with
    ``shown``."""
    from scipy import stats

    if len(points) < 3 or min(len({point[axis] for point in points}) for axis in (0, 1)) < 2:
        return Claim(words, None, f"{shown}{len(points)} points, too few or all equal")
    test = stats.kendalltau(*zip(*points, strict=True))
    evidence = f"{shown}τ = {test.statistic:.2f}, p = {test.pvalue:.2g}, n = {len(points)}"
    holds = None if test.pvalue >= SIGNIFICANCE else bool(test.statistic * sign > 0)
    return Claim(words, holds, evidence, float(test.pvalue))


falls = partial(rises, sign=-1)
"""A function that returns the claim that the second of two numbers falls as the first grows."""


def higher(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """Return the claim that the first group's exposures are higher."""
    return ranked(words, one, other, above=True, digits=1, unit=" bits")


def still_leaks(words: str, exposures: Mapping[str, Sequence[float]], bounds: Collection[float] = ()) -> Claim:
    """Return the claim that all exposures of each setting exceed 4.3 bits, which chance exceeds in 5 % of cases.

    An exposure below this level is inconclusive if it is one of the lower ``bounds``.
    """
    least = {name: min(values) for name, values in exposures.items() if values}
    low = [value for values in exposures.values() for value in values if value <= CHANCE]
    shown = ", ".join(f"{name}: {'≥ ' if value in bounds else ''}{value:.1f}" for name, value in least.items())
    evidence = f"lowest {shown} bits; chance exceeds {CHANCE:.1f} bits in 5 % of cases"
    return Claim(words, decide(bool(least) and not low, any(value not in bounds for value in low)), evidence)


def alike(words: str, groups: Mapping[str, Sequence[float]]) -> Claim:
    """Return the claim that settings do not differ significantly in exposure, by the Kruskal-Wallis test at 0.05."""
    shown = ", ".join(f"{name}: {fmean(values):.1f}" for name, values in groups.items() if values)
    return no_difference(words, list(groups.values()), f"{shown} bits")


def all_of(words: str, outcomes: Sequence[bool], evidence: str) -> Claim:
    """Return the claim that something held in every run."""
    return Claim(words, all(outcomes) if outcomes else None, f"{sum(outcomes)} of {len(outcomes)}; {evidence}")


def as_a_rule(words: str, outcomes: Sequence[bool], evidence: str) -> Claim:
    """Return the claim of a result that the paper saw in one run: all runs agree, or the interval of their share
    excludes a half."""
    from leakage_tasks.stats.intervals import clopper_pearson

    if not outcomes:
        return Claim(words, None, "not measured")
    hits = sum(outcomes)
    low, high = clopper_pearson(hits, len(outcomes))
    holds = decide(hits == len(outcomes) or low > 0.5, hits == 0 or high < 0.5)
    return Claim(words, holds, f"{hits} of {len(outcomes)} [{low:.2f}, {high:.2f}]; {evidence}")


def unknown(words: str, exposures: Sequence[float]) -> Claim:
    """Return the claim that no model knows the secret: exposures exceed the 5 % level of chance no more often than by
    chance.

    The claim fails by a one-sided binomial test at 0.05 and holds if no exposure exceeds the level.
    """
    from scipy import stats

    over = sum(value > CHANCE for value in exposures)
    p = float(stats.binomtest(over, len(exposures), SIGNIFICANCE, alternative="greater").pvalue)
    evidence = f"{over} of {len(exposures)} above {CHANCE:.1f} bits, which chance exceeds in 5 % of cases; "
    evidence += f"most exposed {max(exposures):.1f} bits"
    fails = over > 0 and p < SIGNIFICANCE
    return Claim(
        words, decide(over == 0, fails), f"{evidence}, p = {p:.2g}" if fails else evidence, p if fails else None
    )
