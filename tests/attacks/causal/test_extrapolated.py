"""Exposure extrapolated from a fitted skew-normal, on models that are tables of costs."""

import math

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import finding_from_json, run_attack
from leakage_tasks.attacks.causal.whole_texts import warn_of_rejected
from leakage_tasks.canaries import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.stats import skew_normal
from tests.attacks.tables import Table


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """So few resamples that a test takes seconds; p is then 1 / 20 at the least, which rejects nothing."""
    monkeypatch.setattr(skew_normal, "RESAMPLES", 19)


class Normal(Table):
    """Costs of 10^4 fillings that are skew-normal, but for that of 4242: so many standard deviations below."""

    def __init__(self, below=0.0, shape=2.0):
        costs = stats.skewnorm.rvs(shape, 60, 8, size=(1000, 10), random_state=0)
        costs[424, 2] -= 8 * below
        super().__init__([np.zeros((10**depth, 10)) for depth in range(3)] + [costs])


SECRET = Canary("c", "{digits:4}", tuple("4242"))


def attacked(table, canary=SECRET, seed=0, **settings):
    return run_attack("skew-normal", table, [canary], values={"draws": 300, **settings}, seed=seed)[0]


def references(table, canary=SECRET, draws=300, seed=0):
    """The costs of the fillings that the attack draws."""
    drawn = canary.space.sample(draws, f"{seed}:{canary.id}")
    return np.array([table.costs[int("".join(each))] for each in drawn if each != canary.secret])


def test_exposure_is_tensorflow_privacys_extrapolation():
    """Its definition written anew: −log2 of scipy's distribution function at the cost, of the same parameters."""
    table = Normal()
    found = attacked(table)
    curve = skew_normal.fit_skew_normal(references(table))
    below = stats.skewnorm.cdf(found.log_perplexity, curve.shape, curve.location, curve.scale)
    assert found.exposure == pytest.approx(-np.log2(below), abs=1e-9)
    theirs = stats.skewnorm.cdf(found.log_perplexity, *stats.skewnorm.fit(references(table)))
    assert found.exposure == pytest.approx(-np.log2(theirs), abs=0.01)


def test_far_out_exposure_is_finite_and_beyond_what_the_space_has():
    bits = [attacked(Normal(below)).exposure for below in (10, 30, 50)]
    assert bits == sorted(bits)
    assert bits[0] > math.log2(10**4)
    assert math.isfinite(bits[-1])


def test_the_rank_is_what_the_exposure_leaves_of_the_space():
    near, far = attacked(Normal(1.0)), attacked(Normal(20.0))
    assert near.rank == pytest.approx(10**4 * 2**-near.exposure)
    assert near.rank_low < near.rank < near.rank_high
    assert (far.rank, far.rank_low, far.rank_high) == (1, 1, 1)
    assert far.extra["extrapolated_low"] < far.exposure < far.extra["extrapolated_high"]


def test_a_finding_is_extrapolated_and_comes_back_from_json():
    found = attacked(Normal(20.0))
    assert (found.method, found.model_calls, found.extra["draws"]) == ("extrapolated", 301, 300)
    assert finding_from_json(found.to_json()) == found
    assert finding_from_json(found.to_json()).exposure == found.extra["extrapolated"]


def test_the_fits_test_is_in_the_finding():
    table = Normal()
    found, fit = attacked(table), skew_normal.fit_skew_normal(references(table))
    assert (found.extra["ks"], found.extra["p_value"], found.extra["rejected"]) == (fit.statistic, fit.p_value, False)


def test_a_small_space_is_fitted_whole_without_the_secret():
    table = Table.random(2, 0, 1.0)
    canary = table.ranked(3)
    found = attacked(table, canary)
    others = np.delete(table.costs, int("".join(canary.secret)))
    assert found.extra["draws"] == 99
    assert found.exposure == skew_normal.fit_skew_normal(others).exposure(found.log_perplexity)


def test_a_histogram_keeps_the_costs_that_were_fitted_and_scores_no_more():
    plain, more = attacked(Normal()), attacked(Normal(), histogram=1)
    assert more.extra["costs"] == pytest.approx(sorted(references(Normal())), abs=1e-4)
    assert (more.exposure, more.model_calls, more.extra["audit_calls"]) == (plain.exposure, plain.model_calls, 0)


def test_order_and_company_change_nothing_and_the_seed_does():
    table, other = Normal(), Canary("d", "{digits:4}", tuple("0007"))
    together = run_attack("skew-normal", table, [other, SECRET], values={"draws": 300})
    assert together[1].exposure == attacked(table).exposure
    assert attacked(table, seed=1).exposure != attacked(table).exposure


def test_more_draws_than_the_budget_are_refused():
    with pytest.raises(OptionError, match="canary 'c': draws=2000 and the secret are more than budget=2000: raise"):
        run_attack("skew-normal", Normal(), [SECRET], budget=2000)


FLAT = Table([np.ones((10**depth, 10)) for depth in range(4)])


@pytest.mark.parametrize(("table", "draws", "number"), [(FLAT, 300, 1), (Normal(), 10, 10)])
def test_too_few_different_costs_say_what_would_help(table, draws, number):
    with pytest.raises(OptionError, match=f"canary 'c': {number} different costs: .* is fitted to 50.*draws="):
        attacked(table, draws=draws)


def test_a_warning_counts_the_rejected_fits(monkeypatch, caplog):
    monkeypatch.setattr(skew_normal, "RESAMPLES", 39)
    heaps = Normal()
    heaps.levels[3][:, :5] += 100
    findings = [attacked(heaps), attacked(Normal()), attacked(Normal(2.0))]
    assert [found.extra["rejected"] for found in findings] == [True, False, False]
    warn_of_rejected(findings[1:])
    assert caplog.text == ""
    warn_of_rejected(findings)
    assert "the skew-normal fits of 1 of 3 canaries are rejected" in caplog.text
    assert "do not trust their exposures" in caplog.text
