"""Intervals of means over documents that contribute several values each.

Values of one document depend on each other, so the document, not the value, is the unit of the interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.intervals import LEVEL, parts

FEWEST_STUDENTIZED = 10
"""Minimum number of clusters for a bootstrap-t interval. Resamples of fewer clusters have too few different errors."""

Ends = tuple[float, float] | tuple[None, None]
"""The low and the high end of an interval; None if there is no interval."""


def totals(values: Sequence[float], clusters: Sequence[int]) -> tuple[FloatArray, FloatArray]:
    """Return the sum and the number of the values of each cluster, ``[clusters]`` each, in ascending order of
    clusters."""
    _, which = np.unique(np.asarray(clusters), return_inverse=True)
    sums = np.bincount(which, weights=np.asarray(values, dtype=np.float64))
    return sums.astype(np.float64), np.bincount(which).astype(np.float64)


def units(clusters: Sequence[int]) -> Sequence[int]:
    """Return the clusters of values; for values of a single cluster, which they describe alone, one for each value."""
    return clusters if len(set(clusters)) > 1 else range(len(clusters))


def clustered_share(values: Sequence[float], clusters: Sequence[int]) -> tuple[float, float]:
    """Return the interval of a share of values that are 1 (Korn and Graubard, Survey Methodology 24 (1998) 193).

    It is Clopper and Pearson's interval for the effective number of values: the number of independent values that
    would have the variance of the clustered values, corrected for the degrees of freedom, and at most the number of
    values. With one value per cluster it equals Clopper and Pearson's interval. If all values are equal, the effective
    number is the number of clusters. Raises ValueError without values.
    """
    if not len(values):
        raise ValueError("no values")
    return _proportion(float(np.mean(values)), effective_number(values, clusters))


def _proportion(share: float, number: float) -> tuple[float, float]:
    """Return Clopper and Pearson's interval of a share of a ``number`` of trials that need not be whole."""
    hits, tail = share * number, (1 - LEVEL) / 2
    low = 0.0 if share == 0 else float(stats.beta.ppf(tail, hits, number - hits + 1))
    high = 1.0 if share == 1 else float(stats.beta.ppf(1 - tail, hits + 1, number - hits))
    return low, high


def effective_number(values: Sequence[float], clusters: Sequence[int]) -> float:
    """Return the number of independent values whose mean would vary as the mean of the clustered values does.

    It is corrected for the degrees of freedom, and at most the number of values. If all values are equal, it is the
    :func:`kish_number` of the clusters.
    """
    sums, sizes = totals(values, clusters)
    number, groups = float(sizes.sum()), len(sizes)
    squares = float(((np.asarray(values, dtype=np.float64) - sums.sum() / number) ** 2).sum())
    if groups == 1 or not squares:
        return kish_number(sizes)
    if groups == number:
        return number
    variance = float(_with_error(sums, sizes)[1]) ** 2
    independent = squares / number / (number - 1)
    if variance <= independent:
        return number
    correction = (_student(number) / _student(kish_number(sizes))) ** 2
    return min(number, max(1.0, number * independent / variance * correction))


def kish_number(sizes: FloatArray) -> float:
    """Return the number of clusters of equal sizes whose mean would vary as that of clusters of these sizes (Kish)."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _student(number: float) -> float:
    """Return the quantile of Student's t for the interval of a mean of ``number`` clusters, which may be no integer."""
    return float(stats.t.ppf((1 + LEVEL) / 2, max(1.0, number - 1)))


def clustered_mean(
    values: Sequence[float], clusters: Sequence[int], least: float = -math.inf, most: float = math.inf
) -> tuple[float, float]:
    """Return the 95 % interval of a mean of values of at least two clusters.

    It is :func:`studentized_mean`, or Student's t if that has no interval. Values between two limits vary most if each
    equals a limit, so the interval stays within Clopper and Pearson's for this case.

    If the means of all clusters are equal, their spread is unknown. Then, by Clopper and Pearson, a share of up to
    1 − 0.025^(1/n) of further clusters may differ from n clusters, within the limits, which may be infinite.

    Args:
        values: The values, at least one.
        clusters: Number of the cluster of each value.
        least: Smallest possible value.
        most: Largest possible value.

    Returns:
        The low and the high end.
    """
    sums, sizes = totals(values, clusters)
    span = most - least
    mean = float(sums.sum() / sizes.sum())
    if np.ptp(sums / sizes) <= 1e-9 * max(1.0, abs(mean)):
        other = _proportion(0.0, kish_number(sizes))[1]
        return mean - other * (mean - least), mean + other * (most - mean)
    low, high = studentized_mean(values, clusters)
    if low is None or high is None:
        reach = _student(kish_number(sizes)) * float(_with_error(sums, sizes)[1])
        low, high = mean - reach, mean + reach
    if math.isfinite(span):
        shares = _proportion((mean - least) / span, kish_number(sizes))
        least, most = least + shares[0] * span, least + shares[1] * span
    return max(low, least), min(high, most)


def studentized_mean(values: Sequence[float], clusters: Sequence[int], resamples: int = 2000) -> Ends:
    """Return the 95 % bootstrap-t interval of a mean, with whole clusters resampled.

    The method is of Efron and Tibshirani (An Introduction to the Bootstrap, 1993, section 12.5). The interval is longer
    on the side of a long tail, which the percentile interval cuts off. For clusters of unequal sizes it is stretched as
    Student's t would be for their :func:`kish_number`. None for fewer than :data:`FEWEST_STUDENTIZED` clusters, if one
    cluster has half of the values, and if more resamples than the interval leaves out have no spread. The random seed
    is fixed.
    """
    sums, sizes = totals(values, clusters)
    if len(sizes) < FEWEST_STUDENTIZED or sizes.max() >= sizes.sum() / 2:
        return None, None
    mean, error = (float(one) for one in _with_error(sums, sizes))
    stretched = error * _student(kish_number(sizes)) / _student(len(sizes))
    drawn = [_with_error(*each) for each in _resampled(sums, sizes, resamples)]
    means, errors = (np.concatenate(column) for column in zip(*drawn, strict=True))
    distances = means - mean
    spread = errors > 1e-9 * error
    students = np.where(spread, distances / np.where(spread, errors, 1.0), np.copysign(np.inf, distances))
    low, high = np.quantile(students, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    if not np.isfinite([low, high]).all():
        return None, None
    return mean - float(high) * stretched, mean - float(low) * stretched


def _resampled(sums: FloatArray, sizes: FloatArray, resamples: int) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield parts of the resamples: sums and sizes of the drawn clusters, ``[resamples of the part, clusters]``."""
    generator = np.random.default_rng(0)
    # The order of clusters has no meaning, so it must not change the interval.
    order = np.lexsort((sizes, sums))
    sums, sizes = sums[order], sizes[order]
    for size in parts(resamples, len(sizes)):
        drawn = generator.integers(len(sizes), size=(size, len(sizes)))
        yield sums[drawn], sizes[drawn]


def _with_error(sums: FloatArray, sizes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the values and its standard error between clusters, which are the last axis.

    It is the jackknife's (Efron and Tibshirani, section 11.2): a cluster that has most of the values determines the
    mean, so only the mean without it shows how much it differs from others.
    """
    groups, number = sizes.shape[-1], sizes.sum(axis=-1, keepdims=True)
    mean = sums.sum(axis=-1, keepdims=True) / number
    without = (sums - mean * sizes) / (number - sizes)
    return mean[..., 0], np.sqrt((without**2).sum(axis=-1) * (groups - 1) / groups)
