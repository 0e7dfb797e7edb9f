"""The interval of a share from estimates that are not only 0 and 1, against its formula and in simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.stats.share_interval import share_interval


@pytest.mark.parametrize(("mean", "largest"), [(0.6, 1.0), (0.97, 1.0), (0.6, 0.7)])
def test_the_ends_are_student_s_with_one_more_estimate(mean, largest):
    values = np.r_[np.full(12, mean - 0.02), np.full(8, mean + 0.03)]
    low, high = share_interval(20, values.mean(), values.var(), largest)
    for end, extra, sign in ((low, 0.0, -1), (high, largest, 1)):
        more = np.append(values, extra)
        expected = more.mean() + sign * stats.t.ppf(0.975, 19) * math.sqrt(more.var() / 20)
        assert float(end) == pytest.approx(np.clip(expected, 0, 1))


def test_equal_estimates_have_an_interval():
    low, high = share_interval(16, 0.3, 0.0)
    assert low < 0.29
    assert high > 0.31


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.9])
def test_the_interval_holds_a_binomial_share(share):
    draws = np.random.default_rng(1).random((2000, 64)) < share
    means = draws.mean(axis=1)
    ends = [share_interval(64, mean, mean * (1 - mean)) for mean in means]
    assert np.mean([low <= share <= high for low, high in ends]) >= 0.95
