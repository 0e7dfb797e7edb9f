"""Tests that a sequence in its canonical order is no more likely than in random orders, from log-likelihoods.

The tests follow Oren et al. ("Proving test set contamination in black-box language models", 2023). If the items
of a sequence are exchangeable and the model never saw their order, each order is equally likely to have the highest
log-likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import stats

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.intervals import LEVEL

Shard = tuple[float, tuple[float, ...]]
"""Log-likelihoods of consecutive items: in their canonical order, and in random orders."""
ENUMERATED = 100_000
"""Maximum number of combinations of the orders of half of the shards for which :func:`order_p` enumerates all
combinations."""
DRAWS = 99_999
"""Number of combinations that are drawn if there are more."""
_ROUNDING = 1e-12
"""Relative difference of sums below which two combinations count as equal."""


def order_p(shards: Sequence[Shard]) -> float:
    """Return the p-value of the shards' canonical orders together, by exact randomization.

    The statistic is the sum of the log-likelihoods. If the model does not know the order, the canonical order has in
    each shard each rank among the shard's orders with equal probability, independently of the other shards. All
    combinations of orders are counted if each half of the shards has up to :data:`ENUMERATED`, otherwise :data:`DRAWS`
    are drawn with a fixed seed and the p-value is (1 + number at least as likely) / (draws + 1). For one shard the
    result is (1 + number of shuffles at least as likely as the canonical order) / (shuffles + 1). It does not depend
    on the order of the shards. Raises ValueError without shards.
    """
    if not shards:
        raise ValueError("no shards")
    return _order_p(tuple(sorted(shards)))


@lru_cache(maxsize=4)
def _order_p(shards: tuple[Shard, ...]) -> float:
    # Only differences matter; without a common part, sums keep more digits.
    rows = [np.array([canonical, *sorted(shuffled)]) - canonical for canonical, shuffled in shards]
    tolerance = -_ROUNDING * sum(max(1.0, abs(canonical)) for canonical, _ in shards)
    halves = shards[::2], shards[1::2]
    if max(map(combinations, halves)) <= ENUMERATED:
        first, second = _sums(rows[::2]), np.sort(_sums(rows[1::2]))
        number = len(first) * len(second)
        return float((number - np.searchsorted(second, tolerance - first).sum()) / number)
    generator = np.random.default_rng(0)
    sums = sum((row[generator.integers(len(row), size=DRAWS)] for row in rows), np.zeros(DRAWS))
    return float((1 + (sums >= tolerance).sum()) / (DRAWS + 1))


def _sums(rows: Sequence[FloatArray]) -> FloatArray:
    """Return the sum of one entry of each row, for all combinations of entries."""
    sums = np.zeros(1)
    for row in rows:
        sums = np.add.outer(sums, row).ravel()
    return sums


def combinations(shards: Sequence[Shard]) -> float:
    """Return the number of equally likely combinations of orders, at most 1e300."""
    return float(min(10**300, math.prod(1 + len(shuffled) for _, shuffled in shards)))


def gains(shards: Sequence[Shard]) -> FloatArray:
    """Return each shard's log-likelihood in its canonical order minus the mean of its shuffles, ``[shards]``."""
    return np.array([canonical - np.mean(shuffled) for canonical, shuffled in shards], dtype=np.float64)


def t_p(shards: Sequence[Shard]) -> float | None:
    """Return the p-value of the one-sided t-test that the mean of :func:`gains` is above 0.

    None for fewer than two shards. Without variance it is 1 for gains of 0 or less, otherwise 0.
    """
    if len(shards) < 2:
        return None
    values = gains(shards)
    if np.ptp(values) == 0:
        return 1.0 if values[0] <= 0 else 0.0
    return float(stats.ttest_1samp(values, 0, alternative="greater").pvalue)


def t_interval(shards: Sequence[Shard]) -> tuple[float, float] | None:
    """Return Student's 95 % interval of the mean of :func:`gains`; None without variance or a second shard."""
    values = gains(shards)
    if len(values) < 2 or np.ptp(values) == 0:
        return None
    interval = stats.ttest_1samp(values, 0).confidence_interval(LEVEL)
    return float(interval.low), float(interval.high)
