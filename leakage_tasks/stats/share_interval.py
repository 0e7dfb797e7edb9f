"""Confidence interval of a share from unbiased estimates that are not only 0 and 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from leakage_tasks.core.arrays import FloatArray


def share_interval(
    numbers: ArrayLike, mean: float, variance: float, level: float, largest: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a share's interval from the moments of independent unbiased estimates.

    Uses Student's t, with one more estimate of 0 for the lower end and one of ``largest`` for the upper end, as
    Clopper and Pearson's interval counts one more trial of either outcome. So a rare outcome that no estimate shows is
    within the interval, and equal estimates have an interval. Below a mean of one half, t is used on the logarithm of
    the mean, since estimates of small shares are right-skewed.

    Args:
        numbers: Numbers of estimates, ``[n]`` or one number.
        mean: Mean of the estimates.
        variance: Variance of the estimates, the sum of squares divided by their number.
        level: Confidence level.
        largest: The value that the next estimate may have.

    Returns:
        The lower and the upper end for each of ``numbers``, in [0, 1].
    """
    count = np.asarray(numbers, dtype=np.float64)
    # The distributions of scipy.stats take 30 times as long.
    quantile = special.stdtrit(count - 1, (1 + level) / 2)
    ends = []
    for extra, sign in ((0.0, -1.0), (largest, 1.0)):
        with_extra = (count * mean + extra) / (count + 1)
        spread = (count * (variance + mean**2) + extra**2) / (count + 1) - with_extra**2
        error = quantile * np.sqrt(np.maximum(spread, 0.0) / count)
        small = (with_extra > 0) & (with_extra < 0.5)
        scaled = with_extra * np.exp(np.minimum(sign * error / np.where(small, with_extra, 1.0), 700.0))
        ends.append(np.clip(np.where(small, scaled, with_extra + sign * error), 0.0, 1.0))
    return ends[0], ends[1]
