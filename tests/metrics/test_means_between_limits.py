"""Intervals of means over canaries and twins: most probabilities of a secret are near 0, a few are large.

Exposures of controls are exponential; of planted canaries some are known whole."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import ExposureRange, Interval, ProbabilityBounds, SampledShare

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


def bootstrap_mean(values: list[float]) -> tuple[float, float]:
    """The percentile bootstrap interval of a mean."""
    drawn = np.random.default_rng(0).choice(values, size=(2000, len(values)))
    low, high = np.quantile(drawn.mean(axis=1), [0.025, 0.975])
    return low, high


def both(interval: Interval, values: list) -> tuple[float | None, float | None]:
    return interval.low(values), interval.high(values)


@pytest.mark.parametrize("canaries", [10, 30])
def test_intervals_of_probabilities_near_zero_cover_the_mean(canaries: int) -> None:
    assert coverage(bootstrap_mean, canaries) < 0.85
    twins = coverage(lambda values: both(aggregates.mean_between(0, 1), values), canaries)
    assert twins >= 0.9
    known = aggregates.PROBABILITY_BOUNDS
    exact = coverage(lambda values: both(known, [ProbabilityBounds(value, value) for value in values]), canaries)
    assert exact == twins


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


def exposures(known: float, limits: np.ndarray) -> tuple[list[np.ndarray], float]:
    """Runs in which a share of the canaries is known whole and has 0 to 2 bits otherwise, and their mean exposure.

    Without a known canary all have exponential exposures, as controls.
    """
    stream, size = np.random.default_rng(3), (1000, len(limits))
    if not known:
        return list(stream.exponential(1 / math.log(2), size)), 1 / math.log(2)
    runs = np.where(stream.random(size) < known, limits, stream.uniform(0, 2, size))
    return list(runs), float((known * limits + 1 - known).mean())


@pytest.mark.parametrize(("known", "canaries", "least"), [(0, 5, 0.92), (0.5, 5, 0.94), (0.2, 20, 0.94)])
@pytest.mark.parametrize("smaller", [False, True], ids=["one space", "two spaces"])
def test_pooled_intervals_cover_the_mean_exposure(known: float, canaries: int, least: float, smaller: bool) -> None:
    limits = np.where(np.arange(canaries) % 2 * smaller, 13.0, 30.0)
    _pooled_coverage(known, limits, least)


@pytest.mark.slow
@pytest.mark.parametrize("canaries", [10, 30, 100])
@pytest.mark.parametrize("known", [0, 0.3, 0.5, 0.7, 0.9])
def test_pooled_intervals_of_more_canaries_cover_the_mean_exposure(known: float, canaries: int) -> None:
    _pooled_coverage(known, np.full(canaries, 30.0), 0.935)


def _pooled_coverage(known: float, limits: np.ndarray, least: float) -> None:
    runs, truth = exposures(known, limits)
    ends = [
        both(aggregates.POOLED_EXPOSURE, [ExposureRange(*each) for each in zip(run, run, limits, strict=True)])
        for run in runs
    ]
    assert np.mean([low is not None and high is not None and low <= truth <= high for low, high in ends]) >= least


def test_a_pooled_interval_is_about_as_wide_as_a_bootstrap() -> None:
    for known in (0, 0.5):
        runs, _ = exposures(known, np.full(30, 30.0))
        widths = []
        for run in runs[:100]:
            low, high = both(aggregates.POOLED_EXPOSURE, [ExposureRange(each, each, 30.0) for each in run])
            assert low is not None
            assert high is not None
            bootstrapped = bootstrap_mean(run.tolist())
            widths.append((high - low) / (bootstrapped[1] - bootstrapped[0]))
        assert 1 < np.median(widths) < 1.4
