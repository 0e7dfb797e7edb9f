"""Confidence intervals, as pure functions of counts and samples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

LEVEL = 0.95


def clopper_pearson(hits: int, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """Exact two-sided interval of a proportion (Clopper and Pearson 1934). Raises ValueError for no trials."""
    if not 0 <= hits <= trials or trials == 0:
        raise ValueError(f"{hits} hits of {trials} trials is not a proportion")
    interval = stats.binomtest(hits, trials).proportion_ci(confidence_level=level, method="exact")
    return float(interval.low), float(interval.high)


def at_most(hits: int, trials: int, level: float = LEVEL) -> float:
    """One-sided exact upper limit of a proportion: with no hit in n trials, 1 − (1 − level)^(1/n)."""
    if hits == trials:
        return 1.0
    return float(stats.beta.ppf(level, hits + 1, trials - hits))


def positive_mean(values: NDArray[np.float64], level: float = LEVEL) -> tuple[float, float]:
    """Two-sided interval of the mean of non-negative, right-skewed values with at least one above 0.

    Student's t on the logarithm of the mean (delta method), which stays above 0 and is wider upwards.
    """
    count, mean = len(values), float(values.mean())
    if count < 2:
        return 0.0, float("inf")
    relative = float(values.std(ddof=1)) / mean / np.sqrt(count)
    reach = float(np.exp(stats.t.ppf((1 + level) / 2, count - 1) * relative))
    return mean / reach, mean * reach


def bootstrap_mean(values: Sequence[float], level: float = LEVEL, resamples: int = 2000) -> tuple[float, float]:
    """Percentile bootstrap interval of a mean; the same for the same values. Raises ValueError for none."""
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not len(data):
        raise ValueError("no values to resample")
    draws = np.random.default_rng(0).integers(len(data), size=(resamples, len(data)))
    low, high = np.quantile(data[draws].mean(axis=1), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
