"""Intervals against their definitions."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats.intervals import (
    at_most,
    bounded_mean_at_most,
    clopper_pearson,
    positive_mean,
    share_at_least,
    share_quantile,
)


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


def test_nothing_to_hit_is_an_error():
    with pytest.raises(ValueError, match="no trials"):
        share_quantile([], 0.5)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
def test_the_chance_of_so_many_hits_equals_brute_force(chances, data):
    hits = data.draw(st.integers(0, len(chances)))
    outcomes = itertools.product((False, True), repeat=len(chances))
    expected = sum(
        math.prod(chance if hit else 1 - chance for hit, chance in zip(outcome, chances, strict=True))
        for outcome in outcomes
        if sum(outcome) >= hits
    )
    assert share_at_least(hits, chances) == pytest.approx(expected, abs=1e-12)


@pytest.mark.skipif(not hasattr(stats, "poisson_binom"), reason="scipy has it from 1.15 on")
@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.data())
def test_the_chance_of_so_many_hits_is_that_of_scipy(chances, data):
    hits = data.draw(st.integers(0, len(chances)))
    expected = stats.poisson_binom.pmf(np.arange(len(chances) + 1), chances)[hits:].sum()
    assert share_at_least(hits, chances) == pytest.approx(expected, rel=1e-12, abs=1e-13)


def test_a_bounded_mean_is_below_its_limit_about_as_often_as_promised_or_more():
    """Of a mean that one value in 50 makes, a limit by the normal distribution would fail far more often."""
    stream = np.random.default_rng(2)
    samples = 100.0 * (stream.random((2000, 100)) < 0.02)
    limits = [bounded_mean_at_most(values, 100.0) for values in samples]
    assert np.mean([limit >= 2.0 for limit in limits]) >= 0.95
    assert max(limits) <= 100.0


def test_a_bounded_mean_is_the_formula_of_maurer_and_pontil():
    values = np.array([0.0, 1.0, 4.0, 0.0, 2.0])
    x, n, odds = values / 10, 5, math.log(2 / 0.05)
    pairs = sum((one - other) ** 2 for one in x for other in x) / (2 * n * (n - 1))
    limit = x.mean() + math.sqrt(2 * pairs * odds / n) + 7 * odds / (3 * (n - 1))
    assert bounded_mean_at_most(values, 10.0) == pytest.approx(10 * min(1.0, limit))
    assert bounded_mean_at_most(np.tile(values, 100), 10.0) < 3


def test_one_value_bounds_no_mean():
    with pytest.raises(ValueError, match="1 values bound no mean"):
        bounded_mean_at_most(np.ones(1), 2.0)
