"""What so many canaries, controls and pairs can show: power, before training and after it, as pure functions of counts.

A test is one-sided at 5 %; what it shows, it shows with a probability (power) of 80 % or more.

**Rates.** So many hits of n show a rate above chance that chance alone reaches in at most 5 % of cases; at rate p that
many come with probability I_p(k, n − k + 1), the regularized incomplete beta function. A bound on ε is the same test of
right guesses against the chance e^ε / (1 + e^ε) that ε-DP leaves them (see :mod:`leakage_tasks.stats.epsilon`).

**Exposure.** Of a secret that the model never saw it is −log2 of a uniform share, so n of them sum to a Gamma variable
(The Secret Sharer, Definition 4). The alternative is Lehmann's (Annals of Mathematical Statistics 24 (1953) 23): the
share is a uniform one to the power θ, all exposures are θ times as large, and a planted canary is more exposed than a
control with probability θ / (1 + θ). Hanley and McNeil (Radiology 143 (1982) 29) give the variance of the AUC for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import LEVEL

ALPHA = 1 - LEVEL
"""Of the one-sided tests."""
POWER = 0.8
CHANCE_BITS = math.log2(math.e)
"""Mean exposure in bits of a secret the model never saw, of many fillings."""
MOST = 1_000_000
"""Where looking for a number of canaries ends."""


def least_hits(trials: int, chance: float, alpha: float = ALPHA) -> int:
    """The fewest hits of so many that chance alone reaches with probability ``alpha`` or less; may be trials + 1."""
    return int(stats.binom.isf(alpha, trials, chance)) + 1


def rate_shown(hits: int, trials: int, power: float = POWER) -> float | None:
    """The rate at which so many hits or more come with this power; None where there are not so many trials."""
    return float(special.betaincinv(hits, trials - hits + 1, power)) if hits <= trials else None


def least_rate(trials: int, chance: float = 0.0, alpha: float = ALPHA, power: float = POWER) -> float | None:
    """The lowest rate that so many trials show to be above chance; None where no number of hits would show any.

    Without chance it is 1 − (1 − power)^(1/n): 9 % of 17, at 80 %.
    """
    return rate_shown(least_hits(trials, chance, alpha), trials, power)


def trials_for_rate(rate: float, chance: float = 0.0, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """The fewest trials that show this rate; None where none do. Raises ValueError for a rate that is none."""
    if not 0 <= chance <= 1 or not 0 <= rate <= 1:
        raise ValueError(f"rate {rate:g}, chance {chance:g}: give shares from 0 to 1")
    if rate <= chance:
        return None

    found = _first(lambda trials: bool(_rate_power(rate, np.array([trials]), chance, alpha)[0] >= power))
    if found is None:
        return None
    # Power goes up and down by a hit: below the number that bisection meets there may be a smaller one that does.
    fewer = np.arange(1, found + 1)
    return int(fewer[_rate_power(rate, fewer, chance, alpha) >= power][0])


def _rate_power(rate: float, trials: IntArray, chance: float, alpha: float) -> FloatArray:
    needed = stats.binom.isf(alpha, trials, chance) + 1
    found: FloatArray = stats.binom.sf(needed - 1, trials, rate)
    return found


def least_exposure(canaries: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """The lowest mean exposure, in bits, that so many canaries show to be above chance.

    Raises ValueError for no canaries.
    """
    if canaries < 1:
        raise ValueError(f"{canaries} canaries show no exposure")
    return float(stats.gamma.isf(alpha, canaries) / stats.gamma.isf(power, canaries)) * CHANCE_BITS


def canaries_for_exposure(bits: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """The fewest canaries that show this mean exposure, in bits, against what chance is known to be; None if none."""
    return None if bits <= CHANCE_BITS else _first(lambda number: least_exposure(number, alpha, power) <= bits)


def won_pairs(bits: float) -> float:
    """The chance that a canary of this mean exposure is more exposed than a control: the AUC, θ / (1 + θ)."""
    theta = bits / CHANCE_BITS
    return theta / (1 + theta)


def auc_power(bits: float, planted: int, controls: int, alpha: float = ALPHA) -> float:
    """Power of the Mann-Whitney test of planted canaries of this mean exposure against controls, by normal theory."""
    auc = won_pairs(bits)
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (planted - 1) * (first - auc**2) + (controls - 1) * (second - auc**2)
    by_chance = math.sqrt((planted + controls + 1) / (12 * planted * controls))
    reach = auc - 0.5 - float(stats.norm.isf(alpha)) * by_chance
    return float(stats.norm.cdf(reach / math.sqrt(spread / (planted * controls))))


def twins_for_exposure(bits: float, alpha: float = ALPHA, power: float = POWER) -> int | None:
    """The fewest canaries, with as many controls, whose AUC shows this mean exposure, in bits; None if none do."""
    return None if bits <= CHANCE_BITS else _first(lambda number: auc_power(bits, number, number, alpha) >= power)


def pairs_for_epsilon(epsilon: float, accuracy: float, rows: int = 1) -> int | None:
    """The fewest pairs whose guesses, right as often as ``accuracy``, bound ε from below by ``epsilon``; None if none.

    ``rows`` is how many rows a swap comes to: 1 for the swap itself, 2R for rows of a canary planted R times. δ is 0.
    Raises ValueError for an accuracy that is no share.
    """
    return trials_for_rate(accuracy, float(special.expit(rows * epsilon)))


def _first(holds: Callable[[int], bool]) -> int | None:
    """The first number from 1 that holds, of a condition that holds from some number on; None where that is too far."""
    high = 1
    while not holds(high):
        high *= 2
        if high > MOST:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
