"""The skew-normal distribution's tail, against quadrature and arbitrary precision."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from leakage_tasks.stats.skew_normal import SkewNormal


def known(shape, location=60.0, scale=8.0):
    return SkewNormal(shape, location, scale)


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


@pytest.mark.parametrize("shape", [-2.0, 0.0, 1.5, 4.0])
@pytest.mark.parametrize("z", [0.3, -1.5, -3.0, -8.0, -40.0])
def test_exposure_has_the_digits_of_arbitrary_precision_where_scipy_has_none(shape, z):
    with mpmath.workdps(40):
        below = mpmath.quad(
            lambda x: 2 * mpmath.npdf(x) * mpmath.ncdf(shape * x),
            [z - n / (1 + abs(z)) / (1 + max(shape, 0) ** 2) for n in (800, 400, 100, 30, 10, 3, 1, 0)],
        )
        bits = float(-mpmath.log(below, 2))
    assert known(shape, 0.0, 1.0).exposure(z) == pytest.approx(bits, rel=1e-9)


def test_exposure_rises_steadily_beyond_where_scipys_distribution_ends():
    places = 60 - 8 * np.arange(5.0, 60.0, 0.5)
    with np.errstate(divide="ignore"):
        theirs = -np.log2(stats.skewnorm.cdf(places, 2.0, 60.0, 8.0))
    ours = np.array([known(2.0).exposure(place) for place in places])
    assert not np.isfinite(theirs).all()
    assert np.isfinite(ours).all()
    assert (np.diff(ours) > 0).all()


@settings(deadline=None)
@given(st.floats(-20, 20), st.lists(st.floats(0, 120), min_size=2, max_size=8))
def test_the_distribution_is_two_to_the_minus_exposure(shape, costs):
    curve = known(shape)
    assert curve.distribution(costs) == pytest.approx([2.0 ** -curve.exposure(cost) for cost in costs], abs=1e-8)
