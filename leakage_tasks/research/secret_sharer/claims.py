"""Claims of The Secret Sharer's studies, tested on exposures of several models."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean

from leakage_tasks.research.framework.group_tests import LEAST_P, ranked
from leakage_tasks.research.framework.report import Claim

SHOWN = 10
"""The most means that a claim's evidence lists."""
CHANCE = math.log2(1 / LEAST_P)
"""Exposure in bits that a secret the model never saw exceeds with a probability of 0.05."""


def grows(words: str, exposures: Mapping[int, Sequence[float]] | Mapping[float, Sequence[float]]) -> Claim:
    """That exposure grows with a number: Kendall's rank correlation over all exposures, two-sided at 0.05."""
    points = [(place, value) for place, values in exposures.items() for value in values]
    shown = ", ".join(f"{place:g}: {fmean(values):.1f}" for place, values in exposures.items() if values)
    return rises(words, points, f"{shown} bits; " if len(exposures) <= SHOWN else "")


def rises(words: str, points: Sequence[tuple[float, float]], shown: str = "", *, sign: int = 1) -> Claim:
    """That the second of two numbers grows with the first, by the same test; what was ``shown`` comes first."""
    from scipy import stats

    if len(points) < 3 or min(len({point[axis] for point in points}) for axis in (0, 1)) < 2:
        return Claim(words, None, f"{shown}{len(points)} points, too few or all alike")
    found = stats.kendalltau(*zip(*points, strict=True))
    evidence = f"{shown}τ = {found.statistic:.2f}, p = {found.pvalue:.2g}, n = {len(points)}"
    holds = None if found.pvalue >= LEAST_P else bool(found.statistic * sign > 0)
    return Claim(words, holds, evidence, float(found.pvalue))


falls = partial(rises, sign=-1)
"""That the second of two numbers falls as the first grows."""


def higher(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """That one group's exposures are the higher."""
    return ranked(words, one, other, above=True, digits=1, unit=" bits")


def still_leaks(words: str, exposures: Mapping[str, Sequence[float]]) -> Claim:
    """That each setting's exposures stay above what chance gives: every one above 4.3 bits."""
    least = {name: min(values) for name, values in exposures.items() if values}
    shown = ", ".join(f"{name}: {value:.1f}" for name, value in least.items())
    return Claim(words, min(least.values(), default=0.0) > CHANCE, f"least {shown} bits; chance exceeds 4.3 in 5 %")


def alike(words: str, groups: Mapping[str, Sequence[float]]) -> Claim:
    """That settings do not differ significantly in exposure: Kruskal and Wallis' test does not reject it at 0.05."""
    from scipy import stats

    shown = ", ".join(f"{name}: {fmean(values):.1f}" for name, values in groups.items() if values)
    if len(groups) < 2 or min(map(len, groups.values())) < 2:
        return Claim(words, None, f"{shown} bits; too few models to tell")
    if len({value for values in groups.values() for value in values}) == 1:
        return Claim(words, True, f"{shown} bits; all alike")
    found = stats.kruskal(*groups.values())
    models = sum(map(len, groups.values()))
    return Claim(words, bool(found.pvalue >= LEAST_P), f"{shown} bits; p = {found.pvalue:.2g}, n = {models}")


def all_of(words: str, outcomes: Sequence[bool], evidence: str) -> Claim:
    """That something held in every run."""
    return Claim(words, all(outcomes) if outcomes else None, f"{sum(outcomes)} of {len(outcomes)}; {evidence}")


def unknown(words: str, exposures: Sequence[float]) -> Claim:
    """That no model knows the secret: each one's exposure is what chance gives in all but 5 % of cases, or less."""
    evidence = f"most exposed {max(exposures):.1f} bits; chance exceeds {CHANCE:.1f} in 5 %"
    return all_of(words, [value <= CHANCE for value in exposures], evidence)
