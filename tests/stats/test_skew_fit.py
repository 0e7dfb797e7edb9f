"""Fitting a skew-normal to costs, its Kolmogorov-Smirnov test, and what the fit's uncertainty is."""

import math

import numpy as np
import pytest
from scipy import optimize, stats

from leakage_tasks.core.errors import OptionError
from leakage_tasks.stats import skew_normal
from leakage_tasks.stats.skew_normal import FEWEST, SkewNormal, fit_by_likelihood, fit_skew_normal


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """So few resamples that a test takes seconds; p is then 1 / 40 at the least."""
    monkeypatch.setattr(skew_normal, "RESAMPLES", 39)


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


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [0.0, -1.0, 6.0])
def test_the_search_is_as_good_as_scipys(shape, seed):
    data = stats.skewnorm.rvs(shape, size=150, random_state=seed)
    ours, theirs = fit_by_likelihood(data), stats.skewnorm.fit(data)
    mine = stats.skewnorm.logpdf(data, ours.shape, ours.location, ours.scale).sum()
    assert mine > stats.skewnorm.logpdf(data, *theirs).sum() - 0.01


@pytest.mark.parametrize("parameters", [(0.0, 0.0, 0.0), (-0.7, 0.3, 2.0), (1.0, -0.4, -5.0)])
def test_the_gradient_is_that_of_the_likelihood(parameters):
    data, at = drawn(1.0, 80) / 8 - 7, np.array(parameters)
    slopes = optimize.approx_fprime(at, lambda each: skew_normal._loss(each, data)[0])
    assert skew_normal._loss(at, data)[1] == pytest.approx(slopes, abs=1e-5)
    loss = -stats.skewnorm.logpdf(data, at[2], at[0], math.exp(at[1])).mean() + math.log(2 / math.sqrt(2 * math.pi))
    assert skew_normal._loss(at, data)[0] == pytest.approx(loss)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "bits"), [(0.5, 8.0), (-3.0, 20.0)])
def test_the_interval_covers_what_the_distribution_has(shape, bits):
    """16 fits each of samples of a known distribution, at a cost of known exposure."""
    truth = SkewNormal(shape, 60.0, 8.0)
    cost = optimize.brentq(lambda place: truth.exposure(place) - bits, -200, 80)
    ends = [fit_skew_normal(drawn(shape, 250, seed)).exposure_interval(cost) for seed in range(16)]
    covered = sum(low <= bits <= high for low, high in ends)
    assert stats.binomtest(covered, len(ends), 0.95, alternative="less").pvalue > 0.01
    # Neither is it so wide that it says nothing.
    assert np.median([high - low for low, high in ends]) < bits


def test_forty_bits_and_far_beyond_are_finite():
    fit = fit_skew_normal(drawn(2.0, 200))
    assert fit.exposure(20.0) > 40
    assert math.isfinite(fit.exposure(-1e6))


@pytest.mark.parametrize(
    "values", [[], [3.0] * 500, list(range(FEWEST - 1)), [*range(500), math.inf], [*range(500), math.nan]]
)
def test_what_cannot_be_fitted_says_what_would_help(values):
    with pytest.raises(OptionError, match="a skew-normal is fitted to 50 finite ones or more; score more"):
        fit_skew_normal(values)
