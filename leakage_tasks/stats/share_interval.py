"""Confidence interval of a share from unbiased estimates that are not only 0 and 1."""

from __future__ import annotations

import math

from scipy import special

from leakage_tasks.stats.intervals import LEVEL


def share_interval(
    number: int, mean: float, variance: float, largest: float = 1.0, level: float = LEVEL
) -> tuple[float, float]:
    """Return the ends of a share's interval from the moments of independent unbiased estimates.

    Uses Student's t, with one more estimate of 0 for the lower end and one of ``largest`` for the upper end, as
    Clopper and Pearson's interval counts one more trial of either outcome. So a rare outcome that no estimate shows is
    within the interval, and equal estimates have an interval. Below a mean of one half, t is used on the logarithm of
    the mean, since estimates of small shares are right-skewed.

    Args:
        number: Number of estimates.
        mean: Mean of the estimates.
        variance: Variance of the estimates, the sum of squares divided by their number.
        largest: The value that the next estimate may have.
        level: Confidence level.

    Returns:
        The lower and the upper end, in [0, 1].
    """
    # The distributions of scipy.stats take 30 times as long.
    quantile = float(special.stdtrit(number - 1, (1 + level) / 2))
    squares = number * (variance + mean**2)

    def end(extra: float, sign: float) -> float:
        with_extra = (number * mean + extra) / (number + 1)
        spread = (squares + extra**2) / (number + 1) - with_extra**2
        error = sign * quantile * math.sqrt(max(spread, 0.0) / number)
        if 0 < with_extra < 0.5:
            return min(with_extra * math.exp(min(error / with_extra, 700.0)), 1.0)
        return min(max(with_extra + error, 0.0), 1.0)

    return end(0.0, -1.0), end(largest, 1.0)
