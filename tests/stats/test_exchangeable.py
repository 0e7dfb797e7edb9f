"""Tests of a canonical order against brute force, the formulas written another way, and chance."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats import exchangeable
from leakage_tasks.stats.exchangeable import combinations, gains, order_p, t_interval, t_p

COSTS = st.integers(-50, 50).map(float)
SHARDS = st.lists(st.tuples(COSTS, st.lists(COSTS, min_size=1, max_size=4).map(tuple)), min_size=1, max_size=5)


def by_hand(shards):
    """The share of all combinations of orders that are at least as likely as the canonical ones."""
    sums = [sum(choice) for choice in itertools.product(*([own, *shuffled] for own, shuffled in shards))]
    return sum(total >= sum(own for own, _ in shards) for total in sums) / len(sums)


@given(SHARDS)
def test_all_combinations_of_orders_are_counted(shards):
    assert order_p(shards) == pytest.approx(by_hand(shards))
    assert combinations(shards) == pytest.approx(math.prod(1 + len(shuffled) for _, shuffled in shards))


def test_millions_of_combinations_are_counted_exactly():
    rows = np.random.default_rng(5).integers(0, 12, (10, 7))
    counts = [np.bincount(row, minlength=12) for row in rows]
    sums = functools.reduce(np.convolve, counts)  # number of combinations for each sum
    expected = sums[rows[:, 0].sum() :].sum() / 7**10
    shards = [(float(own), tuple(map(float, rest))) for own, *rest in rows.tolist()]
    assert order_p(shards) == pytest.approx(expected, rel=1e-12)


@given(COSTS, st.lists(COSTS, min_size=1, max_size=30))
def test_one_sequence_has_the_published_p(own, shuffled):
    expected = (1 + len([value for value in shuffled if not value < own])) / (len(shuffled) + 1)
    assert order_p([(own, tuple(shuffled))]) == pytest.approx(expected)


@given(SHARDS, st.integers(-1000, 1000), st.randoms())
def test_neither_a_constant_nor_the_order_of_the_shards_changes_p(shards, constant, stream):
    moved = [(own + constant, tuple(value + constant for value in shuffled)) for own, shuffled in shards]
    stream.shuffle(moved)
    assert order_p(moved) == pytest.approx(order_p(shards))
    assert t_p(moved) == pytest.approx(t_p(shards), abs=1e-9)


def test_drawn_combinations_agree_with_all_of_them(monkeypatch):
    generator = np.random.default_rng(1)
    shards = [(float(own), tuple(rest)) for own, *rest in generator.normal(size=(4, 9)) + 0.1]
    exact = by_hand(shards)
    monkeypatch.setattr(exchangeable, "ENUMERATED", 50)
    exchangeable._order_p.cache_clear()
    assert order_p(shards) == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / exchangeable.DRAWS))
    assert order_p(shards) != exact
    exchangeable._order_p.cache_clear()


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=20).filter(lambda values: np.std(values) > 1e-3))
def test_the_t_test_and_its_interval_are_students(values):
    shards = [(value, (1.0, -1.0)) for value in values]
    mean, error = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
    assert list(gains(shards)) == pytest.approx(values)
    assert t_p(shards) == pytest.approx(stats.t.sf(mean / error, len(values) - 1))
    low, high = t_interval(shards)
    reach = stats.t.ppf(0.975, len(values) - 1) * error
    assert (low, high) == pytest.approx((mean - reach, mean + reach))
    assert (low > 0) == (stats.t.sf(mean / error, len(values) - 1) < 0.025)


def test_shards_without_variance_or_company_have_no_interval():
    assert t_p([(1.0, (0.0,))]) is None
    assert t_interval([(1.0, (0.0,))]) is None
    assert t_p([(0.0, (0.0,)), (0.0, (0.0,))]) == 1.0
    assert t_p([(1.0, (0.0,)), (1.0, (0.0,))]) == 0.0
    assert t_interval([(1.0, (0.0,)), (1.0, (0.0,))]) is None
    assert order_p([(0.0, (0.0,)), (0.0, (0.0, 0.0))]) == 1.0
    with pytest.raises(ValueError, match="no shards"):
        order_p([])


def null_runs(monkeypatch, draw, runs=200):
    """P-values of both tests in runs without contamination, of 12 shards of different spread with 15 shuffles each."""
    monkeypatch.setattr(exchangeable, "DRAWS", 1999)
    generator = np.random.default_rng(7)
    found = []
    for _ in range(runs):
        rows = draw(generator) * generator.uniform(0.2, 5, (12, 1))
        shards = [(float(own), tuple(rest)) for own, *rest in rows.tolist()]
        found.append((order_p(shards), t_p(shards)))
    return np.array(found).T


def test_p_values_of_200_runs_without_contamination_are_uniform(monkeypatch):
    for found in null_runs(monkeypatch, lambda generator: generator.normal(size=(12, 16))):
        # The probability of more than 16 of 200 at a rate of 5 % is 2 %.
        assert (found <= 0.05).sum() <= 16
        assert stats.kstest(found, "uniform").pvalue > 0.001


def test_only_the_exact_test_holds_for_skewed_log_likelihoods(monkeypatch):
    exact, students = null_runs(monkeypatch, lambda generator: -np.exp(generator.normal(size=(12, 16))))
    assert (exact <= 0.05).sum() <= 16
    assert stats.kstest(exact, "uniform").pvalue > 0.001
    assert (students <= 0.05).sum() > 16


def test_a_known_order_is_found():
    generator = np.random.default_rng(3)
    shards = [(float(own) + 3, tuple(rest)) for own, *rest in generator.normal(size=(20, 11)).tolist()]
    assert order_p(shards) == pytest.approx(1 / (1 + exchangeable.DRAWS))
    assert t_p(shards) < 1e-8
