"""The skew-normal fit and what is extrapolated from it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from leakage_tasks.errors import OptionError
from leakage_tasks.metrics import skew_normal
from leakage_tasks.metrics.skew_normal import FEWEST, SkewNormal, fit_skew_normal


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """So few resamples that a test takes seconds; p is then 1 / 40 at the least."""
    monkeypatch.setattr(skew_normal, "RESAMPLES", 39)


def known(shape, location=60.0, scale=8.0):
    """A distribution that was not fitted."""
    return SkewNormal(shape, location, scale, statistic=0.0, p_value=1.0, count=0)


def drawn(shape, count, seed=0):
    return stats.skewnorm.rvs(shape, 60, 8, size=count, random_state=seed)


@pytest.mark.parametrize("shape", [-4.0, 3.0])
def test_the_parameters_of_a_sample_are_found_again(shape):
    fit = fit_skew_normal(drawn(shape, 3000))
    assert (fit.location, fit.scale) == (pytest.approx(60, abs=0.6), pytest.approx(8, rel=0.06))
    assert fit.shape == pytest.approx(shape, rel=0.2)
    assert not fit.rejected


def test_the_fit_is_as_likely_as_scipys():
    data = drawn(2.0, 500, seed=3)
    fit = fit_skew_normal(data)
    theirs = stats.skewnorm.logpdf(data, *stats.skewnorm.fit(data)).sum()
    assert np.log(fit.density(data)).sum() == pytest.approx(theirs, abs=0.05)


def test_two_heaps_are_rejected():
    data = np.concatenate([stats.norm.rvs(50, 3, 200, random_state=1), stats.norm.rvs(80, 3, 200, random_state=2)])
    fit = fit_skew_normal(data)
    assert fit.rejected
    assert fit.p_value == 1 / 40


def test_the_p_value_makes_up_for_parameters_of_the_same_data():
    """The usual one, blind to the fit, is far above 1/2 on average; this one is uniform."""
    samples = [drawn(2.0, 80, seed=seed) for seed in range(10)]
    fits = [fit_skew_normal(data) for data in samples]
    naive = [
        stats.kstest(data, stats.skewnorm(fit.shape, fit.location, fit.scale).cdf).pvalue
        for data, fit in zip(samples, fits, strict=True)
    ]
    assert np.mean(naive) > 0.75
    assert 0.25 < np.mean([fit.p_value for fit in fits]) < 0.75


def test_the_statistic_is_the_largest_distance_of_the_distributions():
    data = np.sort(drawn(1.0, 60))
    fit = fit_skew_normal(data)
    below = np.array([2.0 ** -fit.exposure(cost) for cost in data])
    steps = np.arange(len(data) + 1) / len(data)
    assert fit.statistic == pytest.approx(max(np.abs(below - steps[1:]).max(), np.abs(below - steps[:-1]).max()))


def test_the_same_values_in_any_order_have_the_same_fit():
    data = drawn(1.0, 60)
    assert fit_skew_normal(data) == fit_skew_normal(data[::-1])


def test_the_unit_of_the_costs_does_not_matter():
    data = drawn(2.0, 60)
    fit, scaled = fit_skew_normal(data), fit_skew_normal(data * 1e-6)
    assert scaled.exposure(data[3] * 1e-6) == pytest.approx(fit.exposure(data[3]), rel=1e-4)


@pytest.mark.parametrize("shape", [-3.0, 0.0, 0.7, 5.0])
@pytest.mark.parametrize("cost", [35.0, 50.0, 60.0, 66.0, 80.0])
def test_exposure_is_the_density_integrated(shape, cost):
    fit = known(shape)
    mass, _ = integrate.quad(lambda x: float(fit.density(x)), -np.inf, cost, epsabs=0, epsrel=1e-11, limit=500)
    assert fit.exposure(cost) == pytest.approx(-math.log2(mass), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("shape", [-3.0, 0.0, 3.0, 40.0])
@pytest.mark.parametrize("z", [-0.5, -2.0, -5.0, -12.0])
def test_far_tails_are_the_density_summed_in_logarithms(shape, z):
    """Its own logarithm by scipy, in small steps down to where the density is e^-60 of what it is at z."""
    step = 60 / (-z * (1 + max(shape, 0.0) ** 2)) / 200_000
    logs = stats.skewnorm.logpdf(z - step * np.arange(200_001), shape)
    bits = -(logs[0] + np.log(integrate.simpson(np.exp(logs - logs[0]), dx=step))) / math.log(2)
    assert known(shape).exposure(60 + 8 * z) == pytest.approx(bits, rel=1e-7)


costs = st.floats(-1e4, 1e4)


@settings(deadline=None)
@given(st.floats(-50, 50), costs, st.floats(0, 1e4))
def test_exposure_falls_with_the_cost_and_stays_finite(shape, cost, more):
    fit = known(shape)
    near, far = fit.exposure(cost + more), fit.exposure(cost)
    assert math.isfinite(far)
    assert 0 <= near <= far * (1 + 1e-6) + 1e-9


def test_forty_bits_and_far_beyond_are_finite():
    fit = fit_skew_normal(drawn(2.0, 200))
    assert fit.exposure(20.0) > 40
    assert math.isfinite(fit.exposure(-1e6))


@pytest.mark.parametrize(
    "values", [[], [3.0] * 500, list(range(FEWEST - 1)), [*range(500), math.inf], [*range(500), math.nan]]
)
def test_what_cannot_be_fitted_says_what_would_help(values):
    with pytest.raises(OptionError, match="a skew-normal is fitted to 50 finite ones or more; raise histogram"):
        fit_skew_normal(values)
