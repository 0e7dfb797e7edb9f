"""Are shares uniform on (0, 1]? A Kolmogorov-Smirnov test for shares known exactly, within bounds, or with noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from leakage_tasks.core.arrays import FloatArray

RUNS = 4000
"""Runs simulated where shares are noisy: the least p that can be told apart from 0 is one of so many."""


@dataclass(frozen=True)
class Share:
    """What is known of rank / |R|: it lies between ``low`` and ``high``, up to ``noise``.

    ``noise`` is the standard deviation of its natural logarithm, 0 for what is certain. ``bound`` marks a share that
    is known no better than by the bound of an estimate.
    """

    low: float
    high: float
    noise: float = 0.0
    bound: bool = False


def distance(low: FloatArray, high: FloatArray) -> FloatArray:
    """The least Kolmogorov-Smirnov distance from uniform of any values between ``low`` and ``high``.

    Both are ``[…, n]``, the distance ``[…]``. For values that are known, both the same, it is the test's own statistic.
    """
    low, high = np.sort(low, axis=-1), np.sort(high, axis=-1)
    steps = np.arange(low.shape[-1] + 1) / low.shape[-1]
    over, under = (steps[1:] - high).max(axis=-1), (low - steps[:-1]).max(axis=-1)
    return np.asarray(np.maximum(np.maximum(over, under), 0.0))


def uniform_p(shares: Sequence[Share], seed: int) -> tuple[float, float]:
    """Distance of ``shares`` from uniform, and the probability that uniform ones are so far from it or farther.

    Bounds are taken in favour of uniformity, so that p is never too small for them: a rank r of an exact count stands
    for the whole of ((r − 1) / |R|, r / |R|], which holds a uniform number even where |R| is small. Shares with noise
    are held against simulated ones that have the same noise and, as estimates of a rank, end at 1.
    """
    low, high, noise = np.array([(each.low, each.high, each.noise) for each in shares]).T
    found = float(distance(low, high))
    if not noise.any():
        return found, float(stats.kstwo.sf(found, len(shares)))
    stream = np.random.default_rng(seed)
    size = (RUNS, len(shares))
    simulated = np.minimum(stream.uniform(size=size) * np.exp(noise * stream.normal(size=size)), 1.0)
    farther = int((distance(simulated, simulated) >= found).sum())
    return found, (farther + 1) / (RUNS + 1)
