"""Ranges of totals: against every sample there is, and over shapes that costs may have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import hypergeom

from leakage_tasks.stats import totals
from leakage_tasks.stats.totals import Stratum, total_range

LEAST, MOST = 20.0, 20_000.0


def populations(size: int) -> dict[str, np.ndarray]:
    """Costs of ``size`` canaries: alike, spread, heavy-tailed, mostly cheap with some at the budget."""
    random = np.random.default_rng(1)
    mixed = np.where(np.arange(size) % 10 == 0, MOST, 300.0)
    return {
        "alike": np.full(size, 300.0),
        "uniform": random.uniform(LEAST, MOST, size),
        "log-normal": np.clip(np.exp(random.normal(6, 1.5, size)), LEAST, MOST),
        "pareto": np.clip(100 * random.pareto(0.8, size) + LEAST, LEAST, MOST),
        "one in ten at the budget": mixed,
        "one in fifty at the budget": np.where(np.arange(size) % 50 == 0, MOST, 300.0),
        "all at the budget": np.full(size, MOST),
        "two kinds": np.where(np.arange(size) % 2 == 0, 25.0, 9000.0),
    }


@pytest.mark.slow
@pytest.mark.parametrize("pilot", [5, 10])
@pytest.mark.parametrize("size", [16, 100, 1000])
def test_the_range_holds_the_truth_in_8_of_10_samples(size: int, pilot: int) -> None:
    random = np.random.default_rng(0)
    for name, costs in populations(size).items():
        held = 0
        for _ in range(200):
            sample = tuple(random.choice(costs, pilot, replace=False))
            low, high = total_range([Stratum(size, sample, LEAST, MOST)])
            held += low - 1e-6 <= costs.sum() <= high + 1e-6
        assert held >= 160, (name, held)


@pytest.mark.slow
def test_of_several_groups_together_too() -> None:
    random = np.random.default_rng(2)
    shapes = list(populations(60).values())
    for first, second in itertools.combinations(shapes, 2):
        truth, held = first.sum() + second.sum(), 0
        for _ in range(100):
            groups = [
                Stratum(60, tuple(random.choice(each, 5, replace=False)), LEAST, MOST) for each in (first, second)
            ]
            low, high = total_range(groups)
            held += low - 1e-6 <= truth <= high + 1e-6
        assert held >= 80


def test_of_two_values_it_is_the_hypergeometric_bound() -> None:
    """All five sampled of 40 are cheap: how many of the 40 may be dear, so that this happens in a tenth of samples?"""
    dear = max(number for number in range(36) if hypergeom.pmf(0, 40, number, 5) >= 0.1)
    low, high = total_range([Stratum(40, (0.0,) * 5, 0.0, 1.0)])
    assert low == 0
    assert abs(high - dear) <= 1


def test_the_totals_of_all_ranks_hold_for_whoever_has_them() -> None:
    """The deterministic part, by brute force: a population's total lies between what its own sample's ranks give."""
    costs = np.sort(np.random.default_rng(3).uniform(1, 9, 7))
    for places in itertools.combinations(range(7), 3):
        group = Stratum(7, tuple(costs[list(places)]), 1, 9)
        ranks = np.array([[place + 1 for place in places]])
        low, high = totals._totals(group, ranks)
        assert low[0] <= costs.sum() <= high[0]


def test_a_group_seen_whole_has_no_range() -> None:
    assert total_range([Stratum(3, (1.0, 2.0, 4.0), 0, 100)]) == (7, 7)


def test_without_a_sample_it_is_all_that_there_can_be() -> None:
    group = Stratum(10, (), 2, 50)
    assert total_range([group]) == (20, 500)
    assert group.likely == 500


def test_what_was_seen_beyond_the_bounds_moves_them() -> None:
    assert total_range([Stratum(2, (7.0, 90.0), 10, 50)]) == (97, 97)


def test_large_groups_and_the_same_range_each_time() -> None:
    group = Stratum(100_000, (300.0,) * 5, LEAST, MOST)
    low, high = total_range([group])
    assert (low, high) == total_range([group])
    # A share of 1 - 0.1^(1/5) of them may be at the budget.
    assert high / 100_000 == pytest.approx(300 + (1 - 0.1**0.2) * (MOST - 300), rel=0.02)


def test_a_sample_larger_than_its_group_is_an_error() -> None:
    with pytest.raises(ValueError, match="a sample of 2 from 1"):
        Stratum(1, (1.0, 2.0), 0, 3)


def test_members_that_are_not_finished_may_take_the_most() -> None:
    group = Stratum(3, (1.0,), 0.5, 100, unfinished=(7.0, 2.0))
    assert total_range([group]) == (1 + 7 + 2, 1 + 100 + 100)
    assert Stratum(3, (), 0.5, 100, unfinished=(7.0, 2.0)).likely == 300
    assert Stratum(3, (1.0,), 0.5, 8, unfinished=(7.0, 2.0)).likely == 3 * 8


def test_the_likely_total_is_right_wherever_the_pilot_stops() -> None:
    """Members with exponential costs of mean 50, seen up to a limit that leaves 82 to 2 % unfinished."""
    costs = np.random.default_rng(1).exponential(50, 20_000)
    for limit in (10.0, 50.0, 100.0, 200.0):
        sampled, cut = tuple(costs[costs <= limit]), (limit,) * int((costs > limit).sum())
        assert Stratum(20_000, sampled, 0, 1e9, unfinished=cut).likely == pytest.approx(costs.sum(), rel=0.03)


def test_a_range_with_unfinished_members_holds_that_of_the_finished_ones() -> None:
    whole = total_range([Stratum(20, (3.0, 9.0, 30.0, 5.0, 60.0), 1, 80)])
    cut = total_range([Stratum(20, (3.0, 9.0, 5.0), 1, 80, unfinished=(20.0, 10.0))])
    assert cut[0] <= whole[0] <= whole[1] <= cut[1]


def chances_of(expected: np.ndarray, number: int) -> np.ndarray:
    return number * expected / expected.sum()


def test_by_chances_the_total_is_exact_if_values_are_constant_or_in_proportion() -> None:
    expected = np.array([1.0, 2, 3, 4, 6, 8, 9, 11, 12, 14])
    chances = chances_of(expected, 4)
    for values in (np.full(10, 52.0), 30 * expected):
        drawn = [0, 3, 5, 8]
        group = Stratum(10, tuple(values[drawn]), 1, 1000, chances=tuple(chances[drawn]))
        assert group.likely == pytest.approx(values.sum())


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_by_chances_the_range_holds_the_truth_in_8_of_10_samples(noise: float) -> None:
    """Log-normal costs of which a noisy expectation is known: the range is narrower than without, and holds."""
    random = np.random.default_rng(4)
    expected = np.exp(random.normal(0, 1, 100))
    costs = 50 + 300 * expected * np.exp(random.normal(0, noise, 100))
    chances, held, ratios = chances_of(expected, 5), 0, []
    for _ in range(400):
        drawn = np.searchsorted(np.cumsum(chances), random.random() + np.arange(5))
        low, high = total_range([Stratum(100, tuple(costs[drawn]), 1, 40_000, chances=tuple(chances[drawn]))])
        held += low <= costs.sum() <= high
        ratios.append(high / low)
    assert held >= 320
    assert np.median(ratios) < 3


def test_by_chances_unfinished_members_may_take_the_most() -> None:
    chances = (0.2, 0.4, 0.4)
    whole = Stratum(8, (10.0, 20.0, 5.0), 1, 100, chances=chances)
    cut = Stratum(8, (10.0, 20.0), 1, 100, unfinished=(5.0,), chances=chances)
    low, high = total_range([cut])
    assert high == 10 + 20 + 6 * 100
    assert 10 + 20 + 5 + 5 * 1 <= low <= total_range([whole])[0]
    assert cut.likely == pytest.approx((10 / 0.2 + 20 / 0.4 + 5 / 0.4) * 3 / 2)


def test_by_chances_a_sample_without_a_finished_member_has_the_low_end_of_what_was_seen() -> None:
    low, high = total_range([Stratum(40, (), 1, 1e6, unfinished=(9.0, 12.0, 10.0, 11.0, 9.0), chances=(0.125,) * 5)])
    assert 9 + 12 + 10 + 11 + 9 + 35 <= low < 40 * 12
    assert high == 40e6


def test_by_chances_equal_ones_of_a_group_with_others_show_no_constant() -> None:
    """Ten members of cost 15 and 22 of cost 1, of which only those of cost 15 were drawn."""
    chances = chances_of(np.array([15.0] * 10 + [1.0] * 22), 5)
    group = Stratum(32, (3000.0,) * 5, 1, 1e6, chances=tuple(chances[:5]))
    assert group.likely == pytest.approx(5 * 3000 / chances[0])


def test_by_chances_the_error_of_the_chances_widens_the_range() -> None:
    values, chances = (100.0, 200.0, 300.0, 400.0, 500.0), (0.05, 0.1, 0.15, 0.2, 0.25)
    narrow, wide = (
        total_range([Stratum(100, values, 1, 1e6, chances=chances, chance_error=error)]) for error in (0.0, 0.5)
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
