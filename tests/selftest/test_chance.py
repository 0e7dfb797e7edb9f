"""The test for uniformity: exact where shares are, never too small a p where they are bounds, ties or noisy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.selftest import chance
from leakage_tasks.selftest.chance import Share, distance, uniform_p


def test_of_known_shares_it_is_the_kolmogorov_smirnov_test() -> None:
    values = np.random.default_rng(0).beta(1, 1.5, size=40)
    expected = stats.kstest(values, "uniform")
    found = uniform_p([Share(value, value) for value in values], 0)
    assert found == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)


def test_bounds_take_the_nearest_uniform() -> None:
    low, high = np.array([0.0, 0.0, 0.5]), np.array([0.4, 0.7, 1.0])
    inside = np.random.default_rng(0).uniform(low, high, size=(20_000, 3))
    assert distance(low, high) <= distance(inside, inside).min() + 1e-9


@pytest.mark.parametrize("size", [10, 100, 10**9])
def test_exact_ranks_of_uniform_secrets_raise_no_more_alarms_than_said(size: int) -> None:
    stream = np.random.default_rng(size)
    ranks = stream.integers(1, size + 1, size=(3000, 32))
    found = distance((ranks - 1) / size, ranks / size)
    assert (found >= stats.kstwo.isf(0.05, 32)).mean() < 0.063
    assert (found >= stats.kstwo.isf(0.005, 32)).mean() < 0.009


def test_noisy_ranks_of_uniform_secrets_raise_no_more_alarms_than_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chance, "RUNS", 500)
    stream = np.random.default_rng(0)
    noise = 0.4
    found = []
    for run in range(300):
        shares = np.minimum(stream.uniform(size=24) * np.exp(noise * stream.normal(size=24)), 1)
        found.append(uniform_p([Share(each, each, noise) for each in shares], run)[1])
    assert (np.array(found) <= 0.05).mean() < 0.09
    assert 0.4 < np.median(found) < 0.6


def test_secrets_exposed_by_a_bit_more_are_seen() -> None:
    shares = np.random.default_rng(0).uniform(size=32) / 2
    assert uniform_p([Share(each, each) for each in shares], 0)[1] < 1e-6
    assert uniform_p([Share(each, each, 0.09) for each in shares], 0)[1] < 0.001
