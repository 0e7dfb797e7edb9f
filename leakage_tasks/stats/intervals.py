"""Confidence intervals, as pure functions of counts and samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

LEVEL = 0.95
ENDING_LEVEL = 0.97
"""Level of an interval whose width ends the sampling, so that about 95 % hold. Such an interval keeps its level as the
width goes to 0 (Chow and Robbins 1965). At larger widths fewer hold if the values are right-skewed, since a low mean
then comes with a small spread: in simulations 94 % if a twentieth of the values carries half of the mean, and 98 % of
lognormal values."""
_CELLS = 1 << 21
"""Maximum number of values in memory at a time while resampling."""


@lru_cache(maxsize=4096)
def clopper_pearson(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion (Clopper and Pearson 1934).

    Raises ValueError if there are no trials.
    """
    if not 0 <= hits <= trials or trials == 0:
        raise ValueError(f"{hits} hits of {trials} trials is not a proportion")
    interval = stats.binomtest(hits, trials).proportion_ci(confidence_level=level, method="exact")
    return float(interval.low), float(interval.high)


def at_most(hits: int, trials: int, level: float = LEVEL) -> float:
    """Return the one-sided exact upper limit of a proportion: with no hit in n trials, 1 − (1 − level)^(1/n)."""
    if hits == trials:
        return 1.0
    return float(special.betaincinv(hits + 1, trials - hits, level))


def positive_mean(values: NDArray[np.float64], level: float = LEVEL) -> tuple[float, float]:
    """Return a two-sided interval of the mean of non-negative, right-skewed values with at least one above 0.

    Uses Student's t on the logarithm of the mean (delta method): the interval stays above 0 and is wider upwards. The
    upper end is computed with the largest value counted twice, since the next value of a heavy tail may be as large.
    """
    count = len(values)
    if count < 2:
        return 0.0, float("inf")
    quantile = float(special.stdtrit(count - 1, (1 + level) / 2))
    low = float(values.mean()) * np.exp(-quantile * _relative_error(values))
    more = np.append(values, values.max())
    return float(low), float(more.mean() * np.exp(quantile * _relative_error(more)))


def bounded_mean(values: NDArray[np.float64], most: NDArray[np.float64]) -> tuple[float, float]:
    """Return a two-sided 95 % interval of the mean of a few skewed values, each between 0 and its own limit ``most``.

    Applies :func:`positive_mean` to the values or, if the values are nearer to their limits, to their distances from
    the limits, because the long tail is on that side. If all values are equal, their spread is unknown. Then, by
    Clopper and Pearson, a share of up to 1 − (α/2)^(1/n) of the distribution may lie anywhere between 0 and ``most``.
    Raises ValueError if there are no values.
    """
    mean, largest, distances = float(values.mean()), float(most.mean()), most - values
    if not np.ptp(values) or not np.ptp(distances):
        other = clopper_pearson(0, len(values))[1]
        return mean * (1 - other), largest - (largest - mean) * (1 - other)
    if mean > largest / 2:
        low, high = positive_mean(distances)
        return max(0.0, largest - high), largest - low
    low, high = positive_mean(values)
    return low, min(high, largest)


def _relative_error(values: NDArray[np.float64]) -> float:
    """Return the standard error of the mean divided by the mean."""
    return float(values.std(ddof=1) / values.mean() / np.sqrt(len(values)))


def bounded_mean_at_most(values: NDArray[np.float64], most: float, level: float = LEVEL) -> float:
    """Return a one-sided upper limit of the mean of independent values between 0 and ``most``, of any distribution.

    Uses the empirical Bernstein bound (Maurer and Pontil 2009, theorem 4). Raises ValueError for fewer than two values.
    """
    count = len(values)
    if count < 2:
        raise ValueError(f"{count} values bound no mean")
    scaled = values / most
    odds = np.log(2 / (1 - level))
    spread = np.sqrt(2 * scaled.var(ddof=1) * odds / count)
    return float(most * min(1.0, scaled.mean() + spread + 7 * odds / (3 * (count - 1))))


def parts(resamples: int, width: int) -> Iterator[int]:
    """Yield the sizes of parts of ``resamples`` of ``width`` values each, so that one part fits into memory."""
    size = max(1, _CELLS // width)
    for done in range(0, resamples, size):
        yield min(size, resamples - done)


def percentiles(resampled: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the 95 % percentile interval of resampled values ``[resamples]``."""
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def share_quantile(chances: Sequence[float], quantile: float) -> float:
    """Return the exact quantile of the share of hits if each trial has its own probability (Poisson binomial).

    Raises ValueError if there are no trials.
    """
    # Rounding may leave the sum just below a quantile that only the last number of hits reaches.
    reached = np.searchsorted(_hits(tuple(chances)).cumsum(), quantile * (1 - 1e-12))
    return min(int(reached), len(chances)) / len(chances)


def share_at_least(hits: int, chances: Sequence[float]) -> float:
    """Return the exact probability of ``hits`` or more if each trial has its own probability (Poisson binomial).

    Raises ValueError if there are no trials.
    """
    return min(1.0, float(_hits(tuple(chances))[hits:].sum()))


@lru_cache(maxsize=1)
def _hits(chances: tuple[float, ...]) -> NDArray[np.float64]:
    """Return the probability of each number of hits, ``[trials + 1]``."""
    if not chances:
        raise ValueError("no trials to hit")
    probabilities = np.ones(1)
    # scipy's poisson_binom takes a minute for 15,000 trials; this loop takes a second.
    for chance in sorted(chances):
        probabilities = np.convolve(probabilities, (1 - chance, chance))
    return probabilities
