"""Metrics and aggregates from findings, with the formulas written a second way."""

import dataclasses
import json
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.coarse import band_chances, coarsened
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.metrics import chance_exposure, exposure, extraction
from leakage_tasks.metrics.aggregates import (
    GuessOutcome,
    count,
    hit_by_chance,
    maximum,
    mean,
    median,
)
from leakage_tasks.metrics.control_chance import ControlExposure, chance_of_exposure_as_high, chance_of_exposure_as_low
from leakage_tasks.stats.clusters import clustered_mean
from leakage_tasks.stats.intervals import bounded_mean, clopper_pearson


def finding(planted=True, **fields):
    return Finding("c", "a", planted, 1 if planted else 0, "random", math.log2(1000), **fields)


def table(metrics, findings):
    """What the harness makes of the metrics."""
    rows = [{each.name: each.value(found) for each in metrics if each.applies(found)} for found in findings]
    assert all(list(row) == list(rows[0]) for row in rows)
    return {each.name: each.aggregate([row[each.name] for row in rows]) for each in metrics if each.name in rows[0]}


FINDINGS = [
    finding(rank=1, log_perplexity=10.0, correct=(True, True, True), place=1, model_calls=30),
    finding(rank=8, log_perplexity=20.0, correct=(True, False, True), place=8, model_calls=50),
    finding(rank=500, log_perplexity=60.0, correct=(False, False, True), place=None, model_calls=70),
    finding(False, rank=250, log_perplexity=99.0, correct=(False, False, False), place=None, model_calls=900),
]


METHODS = ("exact", "lower_bound", "sampled", "lower_bound")


@pytest.mark.parametrize("log2_size", [0.0, 1e-320])
def test_a_space_of_less_than_two_fillings_has_no_share_of_exposure(log2_size):
    assert exposure.exposure_fraction(dataclasses.replace(finding(rank=101.0), log2_size=log2_size)) is None


def test_exposure_is_of_planted_canaries_and_controls_stand_apart():
    found = table(exposure.METRICS, FINDINGS)
    bits = [math.log2(1000 / rank) for rank in (1, 8, 500)]
    assert found["exposure"] == pytest.approx(statistics.fmean(bits))
    assert found["exposure_max"] == pytest.approx(math.log2(1000))
    assert found["exposure_fraction"] == pytest.approx(statistics.fmean(bits) / math.log2(1000))
    assert found["rank"] == 8
    assert found["log_perplexity"] == 30
    assert (found["exposure_ci_low"], found["exposure_ci_high"]) == pytest.approx(
        bounded_mean(np.array(bits), np.full(3, math.log2(1000)))
    )
    assert found["control_exposure"] == pytest.approx(2)
    assert found["control_exposure_max"] == pytest.approx(2)
    assert (found["n_planted"], found["n_controls"]) == (3, 1)


def test_extraction_rates_come_with_their_intervals():
    found = table(extraction.METRICS, FINDINGS)
    assert found["extracted"] == pytest.approx(1 / 3)
    assert (found["extracted_ci_low"], found["extracted_ci_high"]) == pytest.approx(clopper_pearson(1, 3))
    assert found["success_at_10"] == pytest.approx(2 / 3)
    assert (found["success_at_10_ci_low"], found["success_at_10_ci_high"]) == pytest.approx(clopper_pearson(2, 3))
    assert found["hdt"] == pytest.approx((0 + 1 / 3 + 2 / 3) / 3)
    assert (found["hdt_ci_low"], found["hdt_ci_high"]) == pytest.approx(
        clustered_mean([0, 1 / 3, 2 / 3], range(3), 0, 1)
    )
    assert found["control_extracted"] == 0
    assert found["model_calls"] == 50
    assert (found["n_planted"], found["n_controls"]) == (3, 1)


def test_a_success_rate_is_stated_with_the_canaries_that_have_a_result():
    natural = [
        coarsened(dataclasses.replace(FINDINGS[0], kind="natural", rank=None, extra={"ranked": ranked}))
        for ranked in (10, 10, 3)
    ]
    assert table(extraction.METRICS, natural)["n_success_at_10"] == 2
    assert table(extraction.METRICS, FINDINGS)["n_success_at_10"] == 3
    named = {metric.name: metric for metric in extraction.METRICS}
    assert named["success_at_10"].count == "n_success_at_10"


def test_pooled_extraction_is_stated_without_natural_secrets():
    natural = coarsened(dataclasses.replace(FINDINGS[0], kind="natural", extra={"ranked": 10}))
    rows = {each.name: each for each in extraction.METRICS}
    counts = [rows[name].value(each) for name in (rows["extracted"].count, rows["hdt"].count) for each in FINDINGS[:2]]
    assert counts == [1.0] * 4
    assert {rows[rows[name].count].value(natural) for name in ("extracted", "hdt", "drawn")} == {None}


def test_searches_alone_have_a_row_of_nodes():
    assert "nodes" not in table(extraction.METRICS, FINDINGS)
    planted, control = (finding(seen, extra={"nodes": nodes}) for seen, nodes in ((True, 7), (False, 900)))
    assert table(extraction.METRICS, [planted, control])["nodes"] == 7


def inverted(planted=True, *, unfinished, secret=1.0, best=1.0):
    extra = {"unfinished": unfinished, "secret_loss": secret, "best_loss": best}
    return finding(planted, correct=(True,) * len(unfinished), place=1, extra=extra)


INVERTED = [
    inverted(unfinished=[True, True, True, True]),
    inverted(unfinished=[True, False, False, True], secret=0.2, best=0.9),
    inverted(unfinished=[False, False, False, True], secret=2.0, best=0.9),
    inverted(False, unfinished=[False, False, False, False], secret=0.2, best=0.9),
]


def test_what_the_relaxation_found_alone_stands_beside_what_the_finish_made_of_it():
    found = table(extraction.METRICS, INVERTED)
    assert (found["extracted"], found["hdt"]) == (1, 0)
    assert found["extracted_unfinished"] == pytest.approx(1 / 3)
    assert (found["extracted_unfinished_ci_low"], found["extracted_unfinished_ci_high"]) == pytest.approx(
        clopper_pearson(1, 3)
    )
    assert found["hdt_unfinished"] == pytest.approx((0 + 0.5 + 0.75) / 3)
    assert (found["hdt_unfinished_ci_low"], found["hdt_unfinished_ci_high"]) == pytest.approx(
        clustered_mean([0, 0.5, 0.75], range(3), 0, 1)
    )


def test_a_secret_of_lower_loss_than_the_best_guess_was_overlooked():
    assert table(extraction.METRICS, INVERTED)["overlooked"] == pytest.approx(1 / 3)
    rounding = inverted(unfinished=[True], secret=1.0, best=1.0 + 1e-9)
    assert table(extraction.METRICS, [rounding])["overlooked"] == 0


def test_other_attacks_have_no_rows_of_inversion():
    names = table(extraction.METRICS, FINDINGS)
    assert not {"extracted_unfinished", "hdt_unfinished", "overlooked"} & names.keys()


@pytest.mark.parametrize("metrics", [exposure.METRICS, extraction.METRICS])
def test_what_is_undefined_is_null_and_strict_json(metrics):
    found = table(metrics, [finding(False)])
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert all(value is None for name, value in found.items() if not name.startswith("n_"))
    assert (found["n_planted"], found["n_controls"]) == (0, 1)


def test_directions_are_the_defenders():
    better = {metric.name: metric.higher_is_better for metric in (*exposure.METRICS, *extraction.METRICS)}
    lower = ("exposure", "exposure_max", "exposure_fraction", "extracted", "success_at_10")
    higher = ("log_perplexity", "hdt")
    neither = ("rank", "model_calls", "nodes", "control_exposure", "control_extracted", "n_planted", "n_controls")
    assert [better[name] for name in lower] == [False] * 5
    assert [better[name] for name in higher] == [True] * 2
    assert [better[name] for name in neither] == [None] * 7


@pytest.mark.parametrize("size", [2, 10, 1000])
def test_chance_exposure_is_the_mean_over_all_ranks(size):
    expected = statistics.fmean(math.log2(size) - math.log2(rank) for rank in range(1, size + 1))
    assert chance_exposure(size) == pytest.approx(expected)


def test_chance_exposure_tends_to_log2_e():
    assert chance_exposure(10**9) == pytest.approx(math.log2(math.e), abs=1e-6)


@given(st.lists(st.one_of(st.none(), st.floats(-100, 100)), max_size=20))
def test_aggregates_skip_what_is_undefined(values):
    defined = [value for value in values if value is not None]
    assert count(values) == len(defined)
    if not defined:
        assert mean(values) is median(values) is maximum(values) is None
    else:
        assert mean(values) == pytest.approx(sum(defined) / len(defined))
        assert median(values) == pytest.approx(statistics.median(defined))
        assert maximum(values) == max(defined)


def test_exposures_that_are_lower_bounds_alone_raise_the_alarm():
    bounds = [dataclasses.replace(each, method=method) for each, method in zip(FINDINGS, METHODS, strict=True)]
    known = table(exposure.METRICS, bounds)["share_with_interval"]
    assert known == pytest.approx(2 / 3)
    assert known < exposure.BOUNDS_ONLY.below
    assert exposure.BOUNDS_ONLY.low


@pytest.mark.parametrize("number", [1, 8, 40])
def test_controls_at_chance_have_a_uniform_probability_of_being_so_exposed(number):
    stream, fillings = random.Random(number), 10**9
    found = [
        chance_of_exposure_as_high(
            [ControlExposure(math.log2(fillings / stream.randrange(1, fillings + 1)), 30.0) for _ in range(number)]
        )
        for _ in range(2000)
    ]
    for share in (0.01, 0.1, 0.5, 0.9):
        assert sum(p <= share for p in found) / len(found) == pytest.approx(share, abs=4 * math.sqrt(share / 2000))


def test_with_few_fillings_controls_at_chance_are_flagged_as_often_as_the_level():
    stream = random.Random(0)
    ranks = [[stream.randrange(1, 11) for _ in range(8)] for _ in range(500)]
    found = [
        chance_of_exposure_as_high([ControlExposure(math.log2(10 / rank), math.log2(10)) for rank in each])
        for each in ranks
    ]
    assert sum(p <= 0.05 for p in found) / len(found) == pytest.approx(0.05, abs=4 * math.sqrt(0.05 / 500))


@pytest.mark.slow
@pytest.mark.parametrize(("fillings", "number"), [(10**9, 1), (10**9, 30), (64, 8), (10, 8), (2, 30)])
def test_controls_at_chance_are_seldom_so_little_exposed(fillings, number):
    stream, trials = random.Random(number), 400
    ranks = [[stream.randrange(1, fillings + 1) for _ in range(number)] for _ in range(trials)]
    bits = math.log2(fillings)
    found = [
        chance_of_exposure_as_low([ControlExposure(math.log2(fillings / rank), bits) for rank in each])
        for each in ranks
    ]
    for share in (0.01, 0.1, 0.5):
        assert sum(p <= share for p in found) / trials <= share + 4 * math.sqrt(share / trials)
    if fillings > 2:
        assert sum(p <= 0.5 for p in found) / trials > 0.35


@pytest.mark.parametrize("bits", [math.log2(10), 30.0])
def test_controls_that_all_stand_last_are_improbable(bits):
    assert chance_of_exposure_as_low([ControlExposure(0.0, bits)] * 8) < 1e-3


def test_an_exposure_beyond_what_any_share_can_be_is_no_fault():
    assert chance_of_exposure_as_low([ControlExposure(5000.0, 5000.0)] * 8) == pytest.approx(1.0)


def test_a_bound_of_a_control_counts_as_the_most_it_may_be():
    bound = finding(False, rank=500, method="lower_bound")
    assert exposure.at_most(bound) == ControlExposure(math.log2(1000), math.log2(1000))
    assert exposure.at_most(dataclasses.replace(bound, method="exact")) == ControlExposure(1.0, math.log2(1000))


def test_exposed_controls_are_improbable():
    assert chance_of_exposure_as_high([ControlExposure(10.0, 30.0)] * 8) < 1e-6


def test_extracted_controls_are_as_probable_as_guessing_makes_them():
    missed = [GuessOutcome(False, 0.1)] * 3
    assert hit_by_chance(missed) == 1
    assert hit_by_chance([*missed[:2], GuessOutcome(True, 0.1)]) == pytest.approx(1 - 0.9**3)
    assert hit_by_chance([GuessOutcome(True, 0.1)] * 3) == pytest.approx(0.001)
    assert hit_by_chance([None, None]) is None


def test_a_control_of_a_large_space_that_comes_out_shows_a_fault():
    out = finding(False, rank=1, correct=(True, True, True), place=1)
    found = table(extraction.METRICS, [*FINDINGS, dataclasses.replace(out, log2_size=30.0)])
    assert found["control_p"] < exposure.NOT_AT_CHANCE.below


def natural_controls(ranks, size):
    """Findings of natural controls as they are shown, by their bands."""
    fields = {"method": "exact", "log_perplexity": 9.0}
    found = [Finding("c", "a", False, 0, "natural", math.log2(size), rank=float(rank), **fields) for rank in ranks]
    return [coarsened(each) for each in found]


@pytest.mark.parametrize("size", [7, 100, 250, 10**6, 40**9])
def test_natural_controls_of_all_ranks_have_the_exposure_of_chance_on_average(size):
    bands = band_chances(math.log2(size))
    assert sum(share for share, _ in bands) == pytest.approx(1.0)
    mean_exposure = sum(share * bits for share, bits in bands)
    assert mean_exposure == pytest.approx(exposure.chance_exposure(size), abs=1e-6)


def test_banded_exposures_of_every_rank_have_the_mean_of_the_exact_ones():
    shown = natural_controls(range(1, 251), 250)
    assert statistics.fmean(each.exposure for each in shown) == pytest.approx(exposure.chance_exposure(250))


@pytest.mark.slow
@pytest.mark.parametrize(("size", "number"), [(10**9, 8), (250, 20)])
def test_the_probabilities_of_natural_controls_fit_their_exposure(size, number):
    stream = random.Random(number)
    tables = [
        table(exposure.METRICS, natural_controls([stream.randrange(1, size + 1) for _ in range(number)], size))
        for _ in range(150)
    ]
    for name in ("control_p", "control_p_low"):
        for share in (0.05, 0.5):
            seen = sum(each[name] <= share for each in tables) / len(tables)
            assert seen <= share + 4 * math.sqrt(share / len(tables))
    chance = exposure.chance_exposure(size)
    above = [each["control_p"] for each in tables if each["control_exposure"] > 1.1 * chance]
    assert above
    assert max(above) < 0.6


def test_the_chance_of_a_success_among_many_guesses_is_at_most_1() -> None:
    (success,) = (metric for metric in extraction.METRICS if metric.name == "success_at_100")
    assert success.chance == "min(1, 100/|R|)"
