"""Rows by how often canaries were planted: what they hold, and how often their intervals hold the truth."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics import exposure, extraction
from leakage_tasks.metrics.aggregates import FEWEST
from leakage_tasks.metrics.metric import Metric
from leakage_tasks.metrics.tiers import copies_of, planted_words
from leakage_tasks.stats.intervals import bounded_mean
from leakage_tasks.stats.power import least_exposure

BITS = 20.0
CHANCE_BITS = math.log2(math.e)


def findings(ranks: dict[int, Sequence[float]], **fields: Any) -> list[Finding]:
    """Canaries planted so often with these ranks; the first place is extracted."""
    return [
        Finding(
            f"{copies}-{n}",
            "a",
            copies > 0,
            copies,
            "random",
            BITS,
            rank=rank,
            method="exact",
            correct=(rank == 1,),
            place=rank,
            **fields,
        )
        for copies, own in ranks.items()
        for n, rank in enumerate(own)
    ]


def rows(metrics: Callable[[Any], list[Metric[Finding, Any]]], found: Sequence[Finding]) -> dict[str, float | None]:
    """What the harness makes of the rows of a run."""
    listed = metrics(copies_of((each.planted, each.kind, each.repetitions, each.family) for each in found))
    return {row.name: row.aggregate([row.value(each) for each in found]) for row in listed if row.applies(found[0])}


RANKS: dict[int, Sequence[float]] = {0: [400_000], 1: [900_000, 2, 4], 4: [2**n for n in range(12)], 16: [1] * 10}


def test_each_tier_has_the_mean_of_its_own_canaries() -> None:
    found = rows(exposure.metrics, findings(RANKS))
    for copies in (1, 4, 16):
        bits = [BITS - math.log2(rank) for rank in RANKS[copies]]
        assert found[f"exposure_x{copies}"] == pytest.approx(statistics.fmean(bits))
        assert found[f"n_x{copies}"] == len(bits)
    everyone = [BITS - math.log2(rank) for copies in (1, 4, 16) for rank in RANKS[copies]]
    assert found["exposure"] == pytest.approx(statistics.fmean(everyone))


def test_each_tier_has_the_share_of_its_own_canaries() -> None:
    found = rows(extraction.metrics, findings(RANKS))
    assert (found["extracted_x1"], found["extracted_x4"], found["extracted_x16"]) == (0, 1 / 12, 1)
    low, high = stats.beta.ppf(0.025, 1, 12), stats.beta.ppf(0.975, 2, 11)
    assert (found["extracted_x4_ci_low"], found["extracted_x4_ci_high"]) == pytest.approx((low, high))


def test_the_interval_of_an_exposure_is_students_on_the_log_of_the_mean() -> None:
    bits = [0.5 * n for n in range(12)]
    found = rows(exposure.metrics, findings({4: [2 ** (BITS - each) for each in bits]}))
    mean, error, reach = statistics.fmean(bits), statistics.stdev(bits) / math.sqrt(12), stats.t.ppf(0.975, 11)
    assert found["exposure_x4_ci_low"] == pytest.approx(mean * math.exp(-reach * error / mean))
    more = [*bits, max(bits)]
    mean, error = statistics.fmean(more), statistics.stdev(more) / math.sqrt(13)
    assert found["exposure_x4_ci_high"] == pytest.approx(mean * math.exp(reach * error / mean))


def test_of_secrets_that_are_nearly_all_known_it_is_of_what_they_lack() -> None:
    found = rows(exposure.metrics, findings({1: [2**n for n in range(12)]}))
    lacking, more = list(range(12)), [*range(12), 11]
    assert BITS - statistics.fmean(lacking) == found["exposure_x1"] > BITS / 2
    reach, mean = stats.t.ppf(0.975, 11), statistics.fmean(lacking)
    error = statistics.stdev(lacking) / math.sqrt(12)
    assert found["exposure_x1_ci_high"] == pytest.approx(BITS - mean * math.exp(-reach * error / mean))
    mean, error = statistics.fmean(more), statistics.stdev(more) / math.sqrt(13)
    assert found["exposure_x1_ci_low"] == pytest.approx(BITS - mean * math.exp(reach * error / mean))


def test_of_a_lower_bound_the_interval_reaches_up_to_what_it_may_be() -> None:
    bits = np.array([9.0, 10.0, 11.0] * 4)
    exact = findings({1: [2 ** (BITS - each) for each in bits]})
    bounds = [dataclasses.replace(each, method="lower_bound") for each in exact]
    assert rows(exposure.metrics, bounds)["exposure_x1_ci_high"] == pytest.approx(BITS)
    assert rows(exposure.metrics, exact)["exposure_x1_ci_high"] == pytest.approx(bits.mean(), abs=1.0)
    assert rows(exposure.metrics, bounds)["exposure_x1_ci_low"] == rows(exposure.metrics, exact)["exposure_x1_ci_low"]


@pytest.mark.parametrize("metrics", [exposure.metrics, extraction.metrics])
def test_too_few_canaries_have_no_interval_and_the_row_says_so(metrics: Callable[..., list[Metric]]) -> None:
    found = {row.name: row for row in metrics({1: FEWEST - 1, 4: FEWEST})}
    name = next(name for name in found if name.endswith("_x1"))
    assert found[name].interval is None
    assert "fewer than 10 give no interval" in found[name].description
    assert not any(row.startswith(f"{name}_ci") for row in found)
    assert found["n_x1"].in_table
    assert not found["n_x4"].in_table
    other = name.replace("_x1", "_x4")
    assert found[other].interval == (f"{other}_ci_low", f"{other}_ci_high")
    assert "no interval" not in found[other].description


def test_the_fewest_copies_are_the_headline_and_come_first() -> None:
    listed = exposure.metrics({16: 10, 4: 12})
    headlines = [row.name for row in listed if row.headline]
    assert headlines == ["exposure_x4", "exposure", "exposure_max"]
    assert listed[0].name == "exposure_x4"
    assert listed[0].title == "Exposure, planted 4 times"
    assert (listed[0].parent, listed[0].copies, listed[0].count) == ("exposure", 4, "n_x4")


def test_a_headline_of_too_few_canaries_raises_an_alarm() -> None:
    checks = {row.name: row.check for row in exposure.metrics({1: 3, 4: 3})}
    assert checks["n_x1"] is not None
    assert (checks["n_x1"].below, checks["n_x1"].name) == (FEWEST, "underpowered")
    assert checks["n_x4"] is None


def test_what_could_have_been_missed_is_of_the_headline() -> None:
    assert rows(exposure.metrics, findings(RANKS))["min_detectable_exposure"] == pytest.approx(least_exposure(3))


def test_no_exposure_is_detectable_in_a_space_that_is_too_small():
    found = [dataclasses.replace(each, log2_size=1.0, rank=1) for each in findings(RANKS)]
    assert rows(exposure.metrics, found)["min_detectable_exposure"] is None


def test_the_detectable_exposure_of_a_small_space_is_that_of_its_ranks():
    found = [dataclasses.replace(each, log2_size=math.log2(10), rank=1) for each in findings(RANKS)]
    assert least_exposure(3) > math.log2(10)
    assert 0.8 * math.log2(10) < rows(exposure.metrics, found)["min_detectable_exposure"] < math.log2(10)


@pytest.mark.parametrize("metrics", [exposure.metrics, extraction.metrics])
def test_a_person_can_read_the_table_of_a_routine_audit(metrics: Callable[..., list[Metric]]) -> None:
    (usual, *_) = findings(RANKS)
    assert len([row for row in metrics({1: 11, 4: 11, 16: 10}) if row.in_table and row.applies(usual)]) <= 14


def test_without_canaries_there_are_no_tiers() -> None:
    assert [row.name for row in exposure.metrics({})] == [row.name for row in exposure.METRICS]


def test_how_often_in_words() -> None:
    assert [planted_words(copies) for copies in (1, 4, 1000)] == [
        "planted once",
        "planted 4 times",
        "planted 1,000 times",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("times", [1.0, 2.0, 5.0], ids=["chance", "twice chance", "five times chance"])
@pytest.mark.parametrize("number", [10, 11, 32])
def test_intervals_hold_the_mean_as_often_as_they_say(number: int, times: float) -> None:
    """Exposures of Lehmann's alternative: those of chance, so many times as large."""
    stream = np.random.default_rng(number)
    most = np.full(number, 1000.0)
    held = [
        low <= times * CHANCE_BITS <= high
        for low, high in (
            bounded_mean(bits, most) for bits in stream.exponential(times * CHANCE_BITS, size=(3000, number))
        )
    ]
    assert np.mean(held) >= 0.93


@pytest.mark.parametrize(
    ("known", "least"),
    [(0.1, 0.67), (0.5, 0.97), *(pytest.param(known, 0.95, marks=pytest.mark.slow) for known in (0.3, 0.9))],
)
def test_intervals_hold_the_mean_where_some_secrets_are_known_whole_as_the_guide_says(
    known: float, least: float
) -> None:
    """Nine digits; the other secrets are at chance."""
    stream, bits = np.random.default_rng(0), math.log2(10**9)
    samples = np.minimum(stream.exponential(CHANCE_BITS, size=(3000, 11)), bits)
    samples = np.where(stream.random(samples.shape) < known, bits, samples)
    truth = known * bits + (1 - known) * CHANCE_BITS * (1 - math.exp(-bits / CHANCE_BITS))
    held = [low <= truth <= high for low, high in (bounded_mean(each, np.full(11, bits)) for each in samples)]
    assert np.mean(held) >= least


@pytest.mark.parametrize("number", [10, 11, 18, 22, 32])
def test_half_known_and_half_not_at_all_has_an_interval(number: int) -> None:
    for size in (1000, 10**5, 10**9, 62**8):
        bits = math.log2(size)
        values = np.repeat([0.0, bits], [number - number // 2, number // 2])
        low, high = bounded_mean(values, np.full(number, bits))
        assert 0 < low < values.mean() < high < bits + 1e-9


def test_secrets_that_are_all_known_bound_the_rate_of_others() -> None:
    """All of ten: by Clopper and Pearson 69 % or more of such secrets are."""
    low, high = bounded_mean(np.full(10, BITS), np.full(10, BITS))
    assert (low, high) == (pytest.approx(0.025 ** (1 / 10) * BITS), BITS)
    low, high = bounded_mean(np.full(10, 10.0), np.full(10, BITS))
    assert low < 10 < high


def test_fewer_than_ten_values_have_no_ends() -> None:
    found = findings({1: [1] * 10})
    some = [dataclasses.replace(each, rank=None) if n else each for n, each in enumerate(found)]
    told = rows(exposure.metrics, some)
    assert (told["exposure_x1_ci_low"], told["exposure_x1_ci_high"], told["n_x1"]) == (None, None, 1)


def test_natural_secrets_are_no_tier() -> None:
    found = findings({3: [4] * 12, 1: [8] * 12})
    natural = [dataclasses.replace(each, kind="natural") if each.repetitions == 3 else each for each in found]
    told = rows(exposure.metrics, natural)
    assert "exposure_x3" not in told
    assert told["exposure_x1"] == pytest.approx(BITS - 3)
    alone = exposure.metrics(copies_of((True, "natural", copies, "") for copies in range(1, 100)))
    assert [row.name for row in alone if row.headline] == ["exposure", "exposure_max"]
    assert {"exposure", "exposure_ci_low", "exposure_ci_high"} <= {row.name for row in alone if row.in_table}


def test_intervals_hold_the_mean_of_secrets_that_are_nearly_all_known() -> None:
    stream = np.random.default_rng(0)
    samples = BITS - np.minimum(stream.exponential(2.0, size=(3000, 11)), BITS)
    truth = BITS - 2.0 * (1 - math.exp(-BITS / 2.0))
    held = [low <= truth <= high for low, high in (bounded_mean(each, np.full(11, BITS)) for each in samples)]
    assert np.mean(held) >= 0.93


def test_exposures_that_are_all_0_are_bounded_from_above() -> None:
    low, high = bounded_mean(np.zeros(12), np.full(12, BITS))
    assert low == 0
    assert 0 < high <= BITS
    assert bounded_mean(np.full(12, BITS), np.full(12, BITS)) == (BITS - high, BITS)
