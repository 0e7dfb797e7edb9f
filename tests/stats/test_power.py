"""What so many canaries can show, against sums over all outcomes and against simulated runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats.epsilon import swap_bound
from leakage_tasks.stats.power import (
    auc_for_exposure,
    auc_power,
    balanced_canaries_for_exposure,
    canaries_for_exposure,
    detectable_exposure,
    least_exposure,
    least_hits,
    least_rate,
    pairs_for_epsilon,
    trials_for_rate,
)

RUNS = 20_000


def at_least(hits: int, trials: int, chance: float) -> float:
    """The binomial tail, summed."""
    return math.fsum(math.comb(trials, k) * chance**k * (1 - chance) ** (trials - k) for k in range(hits, trials + 1))


@given(st.integers(1, 60), st.floats(0, 0.9))
def test_the_fewest_hits_are_the_first_that_chance_hardly_reaches(trials: int, chance: float) -> None:
    hits = least_hits(trials, chance)
    assert 1 <= hits <= trials + 1
    assert at_least(hits, trials, chance) <= 0.05 + 1e-9
    assert at_least(hits - 1, trials, chance) > 0.05 - 1e-9


@given(st.integers(1, 60), st.floats(0, 0.5))
def test_the_least_rate_shows_in_eight_of_ten_runs(trials: int, chance: float) -> None:
    rate, hits = least_rate(trials, chance), least_hits(trials, chance)
    if rate is None:
        assert hits == trials + 1
    else:
        assert at_least(hits, trials, rate) == pytest.approx(0.8)
        assert rate > chance


def test_without_chance_the_least_rate_has_a_closed_form() -> None:
    assert [least_rate(n) for n in (1, 17, 100)] == pytest.approx([1 - 0.2 ** (1 / n) for n in (1, 17, 100)])


@settings(max_examples=50)
@given(st.floats(0.05, 1), st.floats(0, 0.6))
def test_the_trials_are_the_fewest_that_show_a_rate(rate: float, chance: float) -> None:
    found = trials_for_rate(rate, chance)
    if found is None:
        assert rate <= chance + 0.01
    elif found < 300:
        power = [at_least(least_hits(n, chance), n, rate) for n in range(1, found + 1)]
        assert power[-1] >= 0.8 - 1e-9
        assert max(power[:-1], default=0) < 0.8 + 1e-9


@pytest.mark.parametrize("canaries", [1, 5, 32])
def test_the_least_exposure_shows_in_eight_of_ten_simulated_runs(canaries: int) -> None:
    stream = np.random.default_rng(canaries)
    chance = -np.log2(stream.random((RUNS, canaries))).mean(axis=1)
    leak = -np.log2(stream.random((RUNS, canaries))).mean(axis=1) * least_exposure(canaries) * math.log(2)
    shown = (leak[:, None] > np.quantile(chance, 0.95)).mean()
    assert shown == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("number", [5, 20])
def test_the_detectable_exposure_of_secrets_of_yes_and_no_is_that_of_a_rate(number: int) -> None:
    assert detectable_exposure(number, 1.0) == pytest.approx(least_rate(number, 0.5), abs=0.01)


def test_no_exposure_is_detectable_if_chance_often_ranks_all_secrets_first() -> None:
    assert (detectable_exposure(4, 1.0), detectable_exposure(1, math.log2(64))) == (None, None)


@pytest.mark.parametrize("bits", [1.6, 2.0, 3.0, 8.0])
def test_the_canaries_are_the_fewest_that_show_an_exposure(bits: float) -> None:
    found = canaries_for_exposure(bits)
    assert found is not None
    assert least_exposure(found) <= bits
    assert found == 1 or least_exposure(found - 1) > bits


@pytest.mark.parametrize(("bits", "planted", "controls"), [(3.0, 32, 100), (2.5, 40, 40), (2.0, 100, 60)])
def test_the_power_of_the_auc_is_that_of_simulated_runs(bits: float, planted: int, controls: int) -> None:
    stream = np.random.default_rng(0)
    leak = stream.exponential(bits, (2000, planted))
    chance = stream.exponential(math.log2(math.e), (2000, controls))
    p = stats.mannwhitneyu(leak, chance, axis=1, alternative="greater", method="asymptotic").pvalue
    assert auc_power(bits, planted, controls) == pytest.approx((p <= 0.05).mean(), abs=0.04)


def test_a_pair_is_won_as_often_as_the_auc_says() -> None:
    stream = np.random.default_rng(0)
    leak, chance = stream.exponential(3.0, RUNS), stream.exponential(math.log2(math.e), RUNS)
    assert auc_for_exposure(3.0) == pytest.approx((leak > chance).mean(), abs=0.01)


def test_as_many_controls_as_canaries_show_an_exposure_by_the_auc() -> None:
    found = balanced_canaries_for_exposure(3.0)
    assert found is not None
    assert auc_power(3.0, found, found) >= 0.8 > auc_power(3.0, found - 1, found - 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "accuracy", "rows"), [(1.0, 0.95, 1), (1.0, 0.8, 1), (0.5, 0.99, 4), (2.0, 0.9, 1)]
)
def test_the_pairs_bound_epsilon_in_eight_of_ten_runs(epsilon: float, accuracy: float, rows: int) -> None:
    def power(pairs: int) -> float:
        rights = np.arange(pairs + 1)
        bounds = np.array([swap_bound(int(right), pairs, pairs, rows=rows) for right in rights])
        return float(stats.binom.pmf(rights, pairs, accuracy)[bounds >= epsilon].sum())

    found = pairs_for_epsilon(epsilon, accuracy, rows)
    assert found is not None
    assert power(found) >= 0.8
    assert all(power(pairs) < 0.8 for pairs in range(max(1, found - 10), found))


def test_all_guesses_right_bound_what_the_bound_itself_says() -> None:
    pairs = pairs_for_epsilon(1.0, 1.0)
    assert pairs is not None
    assert swap_bound(pairs, pairs, pairs) >= 1 > swap_bound(pairs - 1, pairs - 1, pairs - 1)


def test_up_to_a_million_trials_are_tried() -> None:
    fewest = math.ceil(math.log(0.2) / math.log1p(-2.3e-6))
    assert 2**19 < trials_for_rate(2.3e-6) == fewest < 1_000_000


@pytest.mark.parametrize(
    "nothing", [trials_for_rate(0.1, 0.1), canaries_for_exposure(1.44), balanced_canaries_for_exposure(1.0)]
)
def test_what_is_no_more_than_chance_no_number_shows(nothing: int | None) -> None:
    assert nothing is None


def test_guesses_no_better_than_epsilon_allows_show_nothing() -> None:
    assert pairs_for_epsilon(1.0, 0.73) is None
    assert pairs_for_epsilon(1.0, 0.95, 8) is None


def test_no_canaries_show_no_exposure() -> None:
    with pytest.raises(ValueError, match="0 canaries"):
        least_exposure(0)
    with pytest.raises(ValueError, match="from 0 to 1"):
        trials_for_rate(1.5)
