"""Statistical power of audits: the effects that a number of canaries, controls or pairs can detect.

Pure functions of counts. All tests are one-sided at 5 %; an effect counts as detectable with a power of 80 % or more.

**Rates.** k hits in n trials show a rate above chance if chance alone produces k or more hits with probability 5 % or
less. At a rate p, k or more hits occur with probability I_p(k, n − k + 1), the regularized incomplete beta function.
Lower bounds on ε use this test for right guesses: ε-DP limits their probability to e^ε / (1 + e^ε) (see
:mod:`leakage_tasks.stats.epsilon`).

**Exposure.** The exposure of a secret that the model never saw is −log2 of a uniform variable, so a sum of n exposures
is a Gamma variable (The Secret Sharer, Definition 4). The alternative is Lehmann's (Annals of Mathematical Statistics
24 (1953) 23): the uniform variable is raised to the power θ, which multiplies all exposures by θ. A planted canary is
then more exposed than a control with probability θ / (1 + θ). The variance of this AUC is Hanley and McNeil's
(Radiology 143 (1982) 29). In spaces of fewer than 64 fillings, :func:`detectable_exposure` uses the ranks instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import LEVEL
from leakage_tasks.stats.rank_exposures import SMALL, detectable_mean

ALPHA = 1 - LEVEL
"""Significance level of the one-sided tests."""
POWER = 0.8
CHANCE_BITS = math.log2(math.e)
"""Mean exposure, in bits, of a secret that the model never saw, if the space of fillings is large."""
MOST = 1_000_000
"""Largest number of canaries that a search tries."""


def least_hits(trials: int, chance: float) -> int:
    """Return the fewest hits that chance alone reaches with probability 5 % or less; may be ``trials`` + 1."""
    return int(stats.binom.isf(ALPHA, trials, chance)) + 1


def rate_shown(hits: int, trials: int) -> float | None:
    """Return the rate at which ``hits`` or more occur with probability 80 %; None if ``hits`` > ``trials``."""
    return float(special.betaincinv(hits, trials - hits + 1, POWER)) if hits <= trials else None


def least_rate(trials: int, chance: float = 0.0) -> float | None:
    """Return the lowest rate that ``trials`` trials show to be above chance; None if even all hits would not show it.

    ``chance`` is the rate of hits by chance. For a ``chance`` of 0 the result is 1 − 0.2^(1/n): 9 % for 17 trials.
    """
    return rate_shown(least_hits(trials, chance), trials)


def trials_for_rate(rate: float, chance: float = 0.0) -> int | None:
    """Return the fewest trials that show the true ``rate`` of hits to be above the rate by ``chance``.

    None if ``rate`` does not exceed ``chance`` or a million trials do not suffice. Raises ValueError if either is not
    between 0 and 1.
    """
    if not 0 <= chance <= 1 or not 0 <= rate <= 1:
        raise ValueError(f"rate {rate:g}, chance {chance:g}: give shares from 0 to 1")
    if rate <= chance:
        return None

    sufficient = _first(lambda trials: bool(_rate_power(rate, np.array([trials]), chance)[0] >= POWER))
    if sufficient is None:
        return None
    # Power is not monotonic, since numbers of hits are whole: a number below the bisection's result may suffice.
    fewer = np.arange(1, sufficient + 1)
    return int(fewer[_rate_power(rate, fewer, chance) >= POWER][0])


def _rate_power(rate: float, trials: IntArray, chance: float) -> FloatArray:
    needed = stats.binom.isf(ALPHA, trials, chance) + 1
    power: FloatArray = stats.binom.sf(needed - 1, trials, rate)
    return power


def least_exposure(canaries: int, alpha: float = ALPHA) -> float:
    """Return the lowest mean exposure, in bits, that this number of canaries of large spaces shows to be above chance.

    Raises ValueError if there are no canaries.
    """
    if canaries < 1:
        raise ValueError(f"{canaries} canaries show no exposure")
    return float(stats.gamma.isf(alpha, canaries) / stats.gamma.isf(POWER, canaries)) * CHANCE_BITS


def detectable_exposure(canaries: int, log2_size: float, alpha: float = ALPHA) -> float | None:
    """Return the lowest mean exposure, in bits, that this number of canaries of a space shows to be above chance.

    ``log2_size`` is log2|R|, the largest possible exposure; None if even this mean is not shown. Raises ValueError if
    there are no canaries.
    """
    bits = least_exposure(canaries, alpha)
    if log2_size < SMALL:
        return detectable_mean(canaries, log2_size, alpha, POWER)
    return bits if bits <= log2_size else None


def canaries_for_exposure(bits: float) -> int | None:
    """Return the fewest canaries that show a mean exposure of ``bits`` against the known distribution by chance.

    Returns None if ``bits`` does not exceed the mean by chance.
    """
    return None if bits <= CHANCE_BITS else _first(lambda number: least_exposure(number) <= bits)


def auc_for_exposure(bits: float) -> float:
    """Return the probability that a canary of this mean exposure is more exposed than a control: θ / (1 + θ)."""
    theta = bits / CHANCE_BITS
    return theta / (1 + theta)


def auc_power(bits: float, planted: int, controls: int) -> float:
    """Return the power of the Mann-Whitney test of planted canaries against controls (normal approximation).

    ``bits`` is the mean exposure of the ``planted`` canaries.
    """
    auc = auc_for_exposure(bits)
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (planted - 1) * (first - auc**2) + (controls - 1) * (second - auc**2)
    by_chance = math.sqrt((planted + controls + 1) / (12 * planted * controls))
    reach = auc - 0.5 - float(stats.norm.isf(ALPHA)) * by_chance
    return float(stats.norm.cdf(reach / math.sqrt(spread / (planted * controls))))


def balanced_canaries_for_exposure(bits: float) -> int | None:
    """Return the fewest canaries with an equal number of controls whose AUC shows a mean exposure of ``bits``.

    Returns None if ``bits`` does not exceed the mean by chance.
    """
    return None if bits <= CHANCE_BITS else _first(lambda number: auc_power(bits, number, number) >= POWER)


def pairs_for_epsilon(epsilon: float, accuracy: float, rows: int = 1) -> int | None:
    """Return the fewest pairs whose guesses bound ε from below by ``epsilon`` at δ = 0; None if no number does.

    ``accuracy`` is the share of right guesses. ``rows`` is the number of rows that a swap changes: 1 to bound ε of the
    swap, 2R to bound ε of a row, for canaries planted R times. Raises ValueError if ``accuracy`` is not in [0, 1].
    """
    return trials_for_rate(accuracy, float(special.expit(rows * epsilon)))


def _first(holds: Callable[[int], bool]) -> int | None:
    """Return the first number ≥ 1 for which a monotonic condition holds; None if it exceeds :data:`MOST`."""
    low, high = 0, 1
    while not holds(high):
        if high == MOST:
            return None
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
