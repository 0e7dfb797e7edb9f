"""Intervals of means over canaries and twins: most probabilities of a secret are near 0, a few are large."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import Interval, ProbabilityBounds, SampledShare
from leakage_tasks.stats.intervals import bootstrap_mean

RUNS = 200
MEAN = 0.05 / 2.05
"""The mean of Beta(0.05, 2), of which 7 in 10 values are below 0.001."""


def coverage(ends: Callable[[list[float]], tuple[float | None, float | None]], canaries: int) -> float:
    """The share of runs whose interval contains the true mean."""
    stream, covered = np.random.default_rng(0), 0
    for _ in range(RUNS):
        low, high = ends(stream.beta(0.05, 2, canaries).tolist())
        assert low is not None
        assert high is not None
        covered += low <= MEAN <= high
    return covered / RUNS


def both(interval: Interval, values: list) -> tuple[float | None, float | None]:
    return interval.low(values), interval.high(values)


@pytest.mark.parametrize("canaries", [10, 30])
def test_intervals_of_probabilities_near_zero_cover_the_mean(canaries: int) -> None:
    assert coverage(bootstrap_mean, canaries) < 0.85
    twins = coverage(lambda values: both(aggregates.mean_between(0, 1), values), canaries)
    assert twins >= 0.9
    known = [ProbabilityBounds, aggregates.PROBABILITY_BOUNDS]
    assert coverage(lambda values: both(known[1], [known[0](value, value) for value in values]), canaries) == twins


def test_shares_of_draws_cover_the_mean_of_the_probabilities() -> None:
    draws = np.random.default_rng(1)

    def ends(values: list[float]) -> tuple[float | None, float | None]:
        hits = draws.binomial(1000, values).tolist()
        return both(aggregates.SAMPLED_SHARE, [SampledShare(hit / 1000, hit, 1000) for hit in hits])

    assert coverage(ends, 30) >= 0.9


def test_values_without_limits_have_an_interval_unless_they_are_equal() -> None:
    assert both(aggregates.MEAN, [2.0, 2.0]) == (None, None)
    assert both(aggregates.MEAN, [2.0]) == (None, None)
    low, high = both(aggregates.MEAN, [1.0, 3.0])
    # Student's t with one degree of freedom.
    assert (low, high) == pytest.approx((2 - math.tan(0.475 * math.pi), 2 + math.tan(0.475 * math.pi)))
