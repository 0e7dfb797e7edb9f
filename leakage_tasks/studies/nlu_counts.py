"""Counting trials of the NLU studies: accuracy, Hamming distance per token, and the claims that rest on them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from leakage_tasks.intervals import LEVEL, at_most
from leakage_tasks.studies.nlu_ground import SNIPS, differences
from leakage_tasks.studies.registry import Config, Plan, Trial
from leakage_tasks.studies.report import Claim, Measured

ALPHABET = {"color": 12, "pin": 10, "call": 10}
RELAXED, FINISHED = "relaxed", "finished"
"""The attack's answer as the paper has it, and after the discrete finish, which is ours."""


def chance(pattern: str) -> float:
    """HDT of a random filling, 1 − 1/|V0|."""
    return 1 - 1 / ALPHABET[pattern]


def distances(found: Sequence[Config], attack: str = "published", when: str = RELAXED) -> list[float]:
    """Each canary's Hamming distance per token (section 4.3)."""
    return [fmean(entry["attacks"][attack][when]) for entry in found if attack in entry["attacks"]]


def hdt(found: Sequence[Config], attack: str = "published", when: str = RELAXED) -> Measured | None:
    """Their mean with Student's interval, which stays between 0 and 1; None without trials.

    Where all are 0 the upper end is that of the share of canaries that do not come out whole.
    """
    from scipy import stats

    values = distances(found, attack, when)
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


def exposure(found: Sequence[Config]) -> Measured | str | None:
    """Mean exposure of the true fillings in bits; where some are lower bounds alone, so is the mean."""
    values = [entry["exposure"] for entry in found]
    if any(entry["method"] == "lower_bound" for entry in found):
        return f"≥ {fmean(values):.3g} n={len(values)}"
    return Measured.mean(values) if values else None


def below_chance(words: str, groups: Mapping[str, Measured | None]) -> Claim:
    """That the whole interval of each pattern's HDT is below that of a random filling."""
    return _compared(words, groups, lambda found, level: found.high is not None and found.high < level)


def at_chance(words: str, groups: Mapping[str, Measured | None]) -> Claim:
    """That the interval of each pattern's HDT holds that of a random filling, or lies above it."""
    return _compared(words, groups, lambda found, level: found.high is not None and found.high >= level)


def _compared(words: str, groups: Mapping[str, Measured | None], test: Any) -> Claim:
    measured = {pattern: found for pattern, found in groups.items() if found is not None}
    if not measured or any(found.high is None for found in measured.values()):
        return Claim(words, None, "too few trials to tell")
    shown = "; ".join(
        f"{pattern}: {_interval(found)}, chance {chance(pattern):.2f}" for pattern, found in measured.items()
    )
    return Claim(words, all(test(found, chance(pattern)) for pattern, found in measured.items()), shown)


def _interval(found: Measured) -> str:
    return f"{found.value:.2f} [{found.low:.2f}, {found.high:.2f}] n={found.count}"


def lower(words: str, one: Sequence[float], other: Sequence[float]) -> Claim:
    """That one group's HDT is the lower: Mann and Whitney's test, two-sided at 0.05."""
    from scipy import stats

    if not one or not other:
        return Claim(words, None, "not measured")
    found = stats.mannwhitneyu(one, other)
    below = found.statistic < len(one) * len(other) / 2
    evidence = f"{fmean(one):.2f} against {fmean(other):.2f}; p = {found.pvalue:.2g}, n = {len(one)}, {len(other)}"
    return Claim(words, None if found.pvalue >= 0.05 else bool(below), evidence)


def set_up(trials: Sequence[Trial], plan: Plan, data: str = SNIPS) -> list[str]:
    """How the studies differ from the paper's, and what the victims get right."""
    right, f1 = ([trial.result[name] for trial in trials] for name in ("intent_accuracy", "slot_f1"))
    return [
        *differences(plan, data),
        f"The victims get {100 * fmean(right):.1f} % of test intents right; slot F1 {100 * fmean(f1):.1f}.",
    ]
