"""Intervals against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.intervals import at_most, bootstrap_mean, clopper_pearson, positive_mean


def tail(hits, trials, chance):
    """P(X >= hits) for X binomial, by summing its terms."""
    return sum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(hits, trials + 1))


@given(st.integers(1, 30), st.data())
def test_clopper_pearson_inverts_the_binomial_tails(trials, data):
    hits = data.draw(st.integers(0, trials))
    low, high = clopper_pearson(hits, trials)
    assert low == 0 if hits == 0 else tail(hits, trials, low) == pytest.approx(0.025, abs=1e-9)
    assert high == 1 if hits == trials else 1 - tail(hits + 1, trials, high) == pytest.approx(0.025, abs=1e-9)


def test_no_trials_make_no_proportion():
    with pytest.raises(ValueError, match="not a proportion"):
        clopper_pearson(0, 0)


@given(st.integers(1, 10_000))
def test_no_hit_in_n_bounds_the_chance(trials):
    assert at_most(0, trials) == pytest.approx(1 - 0.05 ** (1 / trials), rel=1e-9)
    assert at_most(trials, trials) == 1.0


def test_a_skewed_mean_is_covered_about_as_often_as_promised():
    stream = np.random.default_rng(1)
    samples = stream.lognormal(0, 1, size=(2000, 400))
    inside = [low <= math.exp(0.5) <= high for low, high in map(positive_mean, samples)]
    assert 0.93 <= np.mean(inside) <= 0.97


def test_an_interval_of_a_positive_mean_stays_positive_and_holds_it():
    low, high = positive_mean(np.array([0.0, 0.0, 0.0, 8.0]))
    assert 0 < low < 2 < high


def test_the_bootstrap_is_repeatable_and_ignores_order():
    values = [1.0, 5.0, 2.0, 9.0]
    assert bootstrap_mean(values) == bootstrap_mean(values[::-1])
    low, high = bootstrap_mean(values)
    assert 1 <= low < 4.25 < high <= 9
    assert bootstrap_mean([3.0, 3.0]) == (3.0, 3.0)
    with pytest.raises(ValueError, match="no values"):
        bootstrap_mean([])
