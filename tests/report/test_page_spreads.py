from __future__ import annotations

import math
import statistics

import pytest
from scipy import stats

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.report.load.findings import CanaryDetail
from leakage_tasks.report.page.spreads import DOTS, USUAL, exposures, repetitions


def detail(number: int, rank: float | None = None, times: int = 1, hit: bool | None = None, **fields: object):
    named = {"canary": str(number), "planted": times > 0, "repetitions": times, "kind": "random", "log2_size": 20.0}
    ranked = None if rank is None else Finding(attack="exposure", rank=rank, **{**named, **fields})
    searched = None if hit is None else Finding(attack="greedy", correct=(hit,), **named)
    return CanaryDetail(str(number), times > 0, times, "random", exposure=ranked, extraction=searched)


def test_rows_are_by_repetitions_with_controls_first():
    found = exposures([detail(1, 4.0, 10), detail(2, 8.0, 0), detail(3, 2.0, 1), detail(4, 16.0, 10)])
    assert found is not None
    assert [(row["label"], row["n"], row["dots"]) for row in found["rows"]] == [
        ("never (controls)", 1, [17.0]),
        ("once", 1, [19.0]),
        ("10 times", 2, [16.0, 18.0]),
    ]


def test_a_control_is_a_control_however_often_its_twin_was_planted():
    found = exposures([CanaryDetail("a", False, 9, "random", exposure=detail(1, 4.0).exposure)])
    assert found is not None
    assert found["rows"][0]["control"]


def test_many_canaries_show_as_evenly_spaced_ones():
    found = exposures([detail(number, 2.0 ** (number / 1000)) for number in range(10_000)])
    assert found is not None
    (row,) = found["rows"]
    assert (row["n"], len(row["dots"])) == (10_000, DOTS)
    assert row["median"] == pytest.approx(20 - 4.9995, abs=1e-3)
    assert statistics.median(row["dots"]) == pytest.approx(row["median"], abs=0.05)


def test_bounds_are_told_from_ranks():
    found = exposures([detail(1, 4.0, method="lower_bound"), detail(2, 2.0, method="exact")])
    assert found is not None
    assert found["rows"][0]["bounds"] == [1, 0]


def test_no_exposure_is_nothing():
    assert exposures([detail(1, hit=True)]) is None


def test_one_in_twenty_secrets_reaches_the_usual_bits_by_chance():
    size = 1_000_000
    reaching = sum(math.log2(size / rank) >= USUAL for rank in range(1, size + 1))
    assert reaching / size == pytest.approx(0.05, abs=2e-6)


def test_chance_is_that_of_the_smallest_and_the_largest_space():
    found = exposures([detail(1, 1.0, log2_size=math.log2(10)), detail(2, 1.0, log2_size=5000.0)])
    assert found is not None
    assert found["chance"] == [1.14, 1.44]


def test_shares_extracted_have_clopper_pearson_intervals():
    canaries = [detail(number, times=4, hit=number < 3) for number in range(10)] + [detail(11, times=0, hit=False)]
    control, planted = repetitions(canaries)
    assert (control["hits"], control["n"], control["control"]) == (0, 1, True)
    low, high = stats.beta.ppf(0.025, 3, 8), stats.beta.ppf(0.975, 4, 7)
    assert (planted["share"], planted["low"], planted["high"]) == (0.3, pytest.approx(low), pytest.approx(high))
