"""Expected costs against the formula written again, and the chances with which a pilot is drawn."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries import make_canaries
from leakage_tasks.planning.expected_costs import draw_pilot, expected_costs
from leakage_tasks.stats.totals import Stratum, total_range

CANARIES = make_canaries("the pin of {unique} is {digits:6}.", 20, controls=0, seed=3)
EXTRACTED = make_canaries("the pin of {unique} is {digits:3}.", 40, controls=0, seed=3)
COSTS = [20.0, 22.5, 19.0, 24.0, 21.0, 20.5, 23.0, 18.0]


def compared(cost: float, costs: list[float], log2_size: float = 20.0) -> Finding:
    return Finding("c", "rank-sample", True, 1, "random", log2_size, log_perplexity=cost, extra={"costs": costs})


@pytest.mark.parametrize("cost", [25.0, 21.0, 19.5, 16.0])
def test_it_grows_as_fewer_fillings_are_expected_to_cost_less(cost: float) -> None:
    mean, spread = np.mean(COSTS), np.sqrt(np.var(COSTS) * 8 / 7)
    share = student(7).cdf((cost - mean) / spread / np.sqrt(9 / 8))
    found = expected_costs(compared(cost, COSTS))
    assert found.extraction == pytest.approx((share + 1 / 64) ** -0.65)
    assert found.exposure == pytest.approx(min(found.extraction, 1 + share * 2**20 / 200))


def test_a_secret_that_is_probably_memorized_is_expected_to_be_found_at_once() -> None:
    assert expected_costs(compared(-100.0, COSTS)).exposure == pytest.approx(1, abs=0.1)
    assert expected_costs(compared(14.0, COSTS, log2_size=60.0)).exposure > 10


def test_an_extraction_of_a_secret_below_all_fillings_may_cost_most() -> None:
    assert expected_costs(compared(-100.0, COSTS, log2_size=10.0)).extraction > 14


def test_fillings_of_one_cost_say_nothing() -> None:
    assert expected_costs(compared(3.0, [5.0] * 8)) == expected_costs(compared(3.0, [5.0])) == (1, 1)


def test_natural_secrets_are_never_drawn_and_all_others_if_they_are_few() -> None:
    natural = [dataclasses.replace(each, kind="natural") for each in CANARIES[:12]]
    pilot = draw_pilot([*natural, *CANARIES[12:]], 8, {each.id: 2.0 for each in CANARIES}, 0)
    assert sorted(each.id for each in pilot.canaries) == sorted(each.id for each in CANARIES[12:])
    assert pilot.chances == {}


def test_without_expected_costs_all_are_as_likely() -> None:
    drawn = Counter(each.id for seed in range(400) for each in draw_pilot(CANARIES, 5, {}, seed).canaries)
    assert set(drawn) == {each.id for each in CANARIES}
    assert max(drawn.values()) < 150


@given(st.lists(st.floats(1, 1000), min_size=9, max_size=20), st.integers(3, 8))
def test_the_chances_are_those_of_a_sample_of_that_size(costs: list[float], number: int) -> None:
    expected = {canary.id: cost for canary, cost in zip(CANARIES, costs, strict=False)}
    pilot = draw_pilot(CANARIES, number, expected, 0)
    assert len({each.id for each in pilot.canaries}) == number
    # Only canaries with expected costs are drawn; each stands for the others too.
    shares = np.array([pilot.chances[name] for name in expected]) * len(CANARIES) / len(costs)
    assert shares.sum() == pytest.approx(number)
    uncertain = shares < 1 - 1e-9
    ratios = shares[uncertain] / np.array(costs)[uncertain]
    assert ratios == pytest.approx(np.full(len(ratios), ratios.mean() if len(ratios) else 0))


def test_the_total_is_right_on_average_whatever_was_expected() -> None:
    random = np.random.default_rng(1)
    values = {each.id: float(np.exp(random.normal(5, 1))) for each in CANARIES}
    expected = {name: 1 + 5 * random.random() for name in values}
    likely = []
    for seed in range(3000):
        pilot = draw_pilot(CANARIES, 6, expected, seed)
        sampled = tuple(values[each.id] for each in pilot.canaries)
        chances = tuple(pilot.chances[each.id] for each in pilot.canaries)
        likely.append(Stratum(20, sampled, 0, 1e9, chances=chances).likely)
    assert np.mean(likely) == pytest.approx(sum(values.values()), rel=0.03)


def test_the_error_of_a_part_of_the_costs_is_that_of_their_mean() -> None:
    costs = [1.0, 2.0, 4.0, 8.0, 3.0, 5.0, 9.0, 2.0]
    some = {canary.id: cost for canary, cost in zip(CANARIES, costs, strict=False)}
    error = np.std(costs) * np.sqrt(8 / 7) / np.sqrt(8) * np.sqrt(1 - 8 / 20) / np.mean(costs)
    assert draw_pilot(CANARIES, 4, some, 0).chance_error == pytest.approx(error)
    assert draw_pilot(CANARIES[:8], 4, some, 0).chance_error == 0


def test_a_sample_of_equal_costs_does_not_follow_the_order_of_the_canaries() -> None:
    """Every fourth of 20 canaries would be a sample of five with a fixed order."""
    indices = {canary.id: index for index, canary in enumerate(CANARIES)}
    pilots = [draw_pilot(CANARIES, 5, dict.fromkeys(indices, 1.0), seed).canaries for seed in range(20)]
    assert any(len({indices[canary.id] % 4 for canary in pilot}) > 1 for pilot in pilots)


def _extractions(stream: np.random.Generator) -> tuple[dict[str, float], dict[str, float]]:
    """The rows of extractions from 1,000 fillings of normal costs, and their expected costs, by canary id.

    Secrets that rank from 3 to 30 take a long search, as on a GPT-2 whose searches read 22, 64 or 420 rows.
    """
    rows, expected = {}, {}
    for canary in EXTRACTED:
        fillings = np.sort(stream.normal(0, 3, 1000))
        cost = float(stream.normal(0, 3))
        rank = int(np.searchsorted(fillings, cost))
        rows[canary.id] = 420.0 if 3 <= rank < 12 else 64.0 if rank < 30 else 22.0
        costs = stream.choice(fillings, 8).tolist()
        expected[canary.id] = expected_costs(compared(cost, costs, math.log2(1000))).extraction
    return rows, expected


def test_ranges_of_extractions_hold_if_few_searches_are_long() -> None:
    stream = np.random.default_rng(4)
    held = dict.fromkeys(("expected", "equal"), 0)
    near = held.copy()
    for seed in range(200):
        rows, expected = _extractions(stream)
        true = sum(rows.values())
        for name, costs in (("expected", expected), ("equal", dict.fromkeys(expected, 1.0))):
            pilot = draw_pilot(EXTRACTED, 8, costs, seed)
            sampled = tuple(rows[each.id] for each in pilot.canaries)
            chances = tuple(pilot.chances[each.id] for each in pilot.canaries)
            group = Stratum(len(EXTRACTED), sampled, 1, 1000, "s", (), chances, pilot.chance_error)
            low, high = total_range([group])
            held[name] += low <= true <= high
            near[name] += 1 / 1.5 <= group.likely / true <= 1.5
    assert held["expected"] >= 0.85 * 200 > held["equal"]
    assert near["expected"] >= 0.95 * 200 > near["equal"]
