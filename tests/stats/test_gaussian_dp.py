"""Bounds on Gaussian differential privacy: another program's figures, the definition, and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.integrate import quad

from leakage_tasks.stats.gaussian_dp import epsilon_of, mu_of_rates, one_run_mu


@pytest.mark.parametrize(
    ("canaries", "guesses", "right", "delta", "printed"),
    [
        (100, 60, 50, 1e-5, 2.074856),
        (100, 60, 50, 1e-3, 1.411885),
        (100, 50, 50, 1e-5, 5.839971),
        (1000, 100, 90, 1e-5, 2.456405),
        (30, 30, 30, 1e-3, 4.168999),
        (32, 10, 9, 1e-5, 0.749115),
        (200, 200, 150, 1e-3, 1.165031),
        (50, 50, 20, 1e-5, 0.0),
    ],
)
def test_bounds_of_one_run_are_those_of_jax_privacy(canaries, guesses, right, delta, printed):
    """The figures of ``_epsilon_one_run_fdp`` in jax_privacy/auditing.py, at a significance of 0.05."""
    assert epsilon_of(one_run_mu(right, guesses, canaries), delta) == pytest.approx(printed, abs=2e-6)


@given(st.floats(0.05, 8), st.sampled_from([1e-8, 1e-5, 1e-2, 0.2]))
def test_epsilon_is_where_the_integral_of_the_hockey_stick_is_delta(mu, delta):
    epsilon = epsilon_of(mu, delta)

    def excess(x: float) -> float:
        return max(0.0, stats.norm.pdf(x - mu) - math.exp(epsilon) * stats.norm.pdf(x))

    start = mu / 2 + epsilon / mu
    integral = quad(excess, start, start + 12 + mu, epsabs=1e-13, limit=200)[0]
    assert integral <= delta * (1 + 1e-4) + 1e-12
    assert epsilon == 0 or integral == pytest.approx(delta, rel=1e-3, abs=1e-12)


def test_no_epsilon_is_finite_without_delta():
    with pytest.raises(ValueError, match="between 0 and 1"):
        epsilon_of(1.0, 0.0)


@given(st.integers(1, 40), st.data())
def test_more_right_guesses_give_no_smaller_bound(guesses, data):
    canaries = data.draw(st.integers(guesses, 80))
    bounds = [one_run_mu(right, guesses, canaries) for right in range(guesses + 1)]
    assert bounds[0] == 0
    assert all(later >= former - 1e-6 for former, later in zip(bounds[:-1], bounds[1:], strict=True))


@pytest.mark.parametrize("counts", [(5, 4, 10), (-1, 4, 10), (3, 11, 10)])
def test_counts_that_contradict_each_other_are_no_result(counts):
    with pytest.raises(ValueError, match="not a result"):
        one_run_mu(*counts)


@pytest.mark.parametrize("mu", [0.5, 1.5])
def test_the_bound_of_one_run_is_seldom_above_the_true_mu(mu):
    """Each canary's score is N(0, 1) or N(μ, 1); the guesses are the highest scores."""
    generator, above = np.random.default_rng(3), 0
    for _ in range(300):
        included = generator.random(100) < 0.5
        best = np.argsort(-(generator.normal(included * mu, 1)))[:25]
        above += one_run_mu(int(included[best].sum()), 25, 100) > mu
    assert above / 300 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)


def test_rates_give_the_bound_of_jax_privacy():
    """The figure of ``epsilon_from_gdp`` for these scores: 200 of N(2, 1) and 300 of N(0, 1), numpy's seed 0."""
    generator = np.random.default_rng(0)
    members, others = generator.normal(2, 1, 200), generator.normal(0, 1, 300)
    # Its thresholds: the vertices of the convex hull of false negatives and true negatives.
    scores = np.append(np.union1d(members, others), np.inf)
    points = [(int((members < score).sum()), int((others < score).sum())) for score in scores]
    hull: list[tuple[int, int]] = []
    for point in points:
        while len(hull) > 1 and _left_of(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    assert len(hull) == 14
    counts = [(negative, 300 - true_negative) for negative, true_negative in hull]
    assert epsilon_of(mu_of_rates(counts, 200, 300, 0.05), 1e-5) == pytest.approx(7.636857, abs=1e-6)


def _left_of(first: tuple[int, int], middle: tuple[int, int], last: tuple[int, int]) -> bool:
    """True if the middle point is on or below the line of the others."""
    return (middle[1] - first[1]) * (last[0] - middle[0]) <= (last[1] - middle[1]) * (middle[0] - first[0])


def test_rates_at_chance_show_nothing():
    assert mu_of_rates([(50, 50)], 100, 100, 0.05) == 0
