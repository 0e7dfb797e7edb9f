"""Metrics of suffix extraction: each formula a second way, and that the order of documents changes nothing."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import math
import random
import statistics
from decimal import Decimal, getcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.attacks.suffix.finding import Choice
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics import aggregates
from leakage_tasks.metrics.aggregates import (
    BY_CHANCE,
    Guessed,
    SampledShare,
    early_stop,
    early_stop_interval,
)
from leakage_tasks.metrics.suffix_values import drawn_within, p_z
from leakage_tasks.metrics.suffixes import DRAWS, suffix_metrics
from leakage_tasks.pairs.submission import (
    SuffixGuess,
    found_before,
    judged_guesses,
    read_submission,
    write_submission,
    wrong_allowed,
)
from leakage_tasks.stats.clusters import clustered_mean, studentized_mean
from leakage_tasks.stats.intervals import clopper_pearson
from tests.drawn import reading
from tests.metrics.test_metrics import table as table_of

getcontext().prec = 50


METRICS = suffix_metrics()


def table(readings, metrics=METRICS):
    return table_of(metrics, readings)


def four(**fields):
    """Readings of four pairs."""
    names = ("right", "confidence", "place", "p_z_bits", "own_bits", "nodes", "model_calls")
    rows = [
        (True, 0.9, 1, 1.0, 3.0, 100, 3),
        (False, 0.8, 2, 5.0, 9.0, 300, 4),
        (False, 0.7, 4, 20.0, 2.0, 800, 5),
    ]
    told = [dict(zip(names, row, strict=True)) for row in rows]
    told.append({"right": False, "confidence": 0.6, "place": None, "p_z_bits": None, "reachable": False})
    told[3] |= {"nodes": 800, "model_calls": 8}
    return [reading(pair, **each, **fields) for pair, each in enumerate(told)]


READINGS = four()


def test_recalls_and_their_intervals():
    found = table(READINGS)
    assert found["recall"] == 1 / 4
    assert (found["recall_ci_low"], found["recall_ci_high"]) == pytest.approx(clopper_pearson(1, 4))
    assert found["recall_at_3"] == 2 / 4
    assert (found["recall_at_3_ci_low"], found["recall_at_3_ci_high"]) == pytest.approx(clopper_pearson(2, 4))
    assert table(four(samples=100))["recall_at_100"] == found["drawn"] == 3 / 4
    assert (found["drawn_ci_low"], found["drawn_ci_high"]) == pytest.approx(clopper_pearson(3, 4))
    assert found["hdt"] == pytest.approx(3 / 16)
    assert (found["hdt_ci_low"], found["hdt_ci_high"]) == pytest.approx(
        clustered_mean([0, 0.25, 0.25, 0.25], range(4), 0, 1)
    )


SHARES = ("recall", "recall_at_3", "drawn", "discoverable_1")


def of_documents(documents):
    """Readings of pairs of these documents: those of even documents are known, those of odd ones never drawn."""
    known = {"right": True, "place": 1, "p_z_bits": 0.5}
    unknown = {"right": False, "place": None, "p_z_bits": 9.0}
    return [
        reading(pair, document=document, **(unknown if document % 2 else known))
        for pair, document in enumerate(documents)
    ]


@pytest.mark.parametrize("name", SHARES)
def test_windows_of_a_document_count_as_one(name):
    found = table(of_documents([n // 3 for n in range(60)]))
    low, high = clopper_pearson(10, 20)
    assert found[name] == 1 / 2
    assert found[f"{name}_ci_low"] <= low
    assert found[f"{name}_ci_high"] >= high


@pytest.mark.parametrize("name", SHARES)
def test_windows_of_a_single_document_are_pairs_of_their_own(name):
    found = table([*of_documents([0] * 5)])
    assert (found[f"{name}_ci_low"], found[f"{name}_ci_high"]) == pytest.approx(clopper_pearson(5, 5))


def windows(times, **fields):
    """Readings of 20 documents with this number of equal windows each."""
    stream, number, readings = np.random.default_rng(3), itertools.count(), []
    for document, hard in enumerate(stream.uniform(0, 9, 20)):
        costs = {"p_z_bits": hard, "own_bits": hard, "base_own_bits": 12.0, "base_p_z_bits": 12.0}
        near = {"near_edits": 1, "near_bits": hard / 2, "near_high_bits": hard / 3, "near_hits": 1}
        told = {**costs, **near, "base_reachable": True, "right": hard < 5, "confidence": float(stream.random())}
        readings += [reading(next(number), document=document, **told, **fields) for _ in range(times)]
    return readings


@pytest.mark.parametrize("name", ["p_z", "p_near", "hdt", "recall_early_stop", "p_z_added", "bits_added"])
def test_equal_windows_of_a_document_are_resampled_as_one(name):
    ends = f"{name}_ci_low", f"{name}_ci_high"
    single, several = table(windows(1)), table(windows(3))
    assert [several[end] for end in ends] == pytest.approx([single[end] for end in ends])


def test_windows_without_a_draw_of_their_suffix_are_resampled_by_document():
    single, several = (table(windows(times, place=None)) for times in (1, 3))
    assert several["p_z_ci_high"] == pytest.approx(single["p_z_ci_high"])


def test_probabilities_count_what_cannot_be_drawn_as_nothing():
    found = table(READINGS)
    each = [2**-1, 2**-5, 2**-20, 0]
    assert found["p_z"] == pytest.approx(statistics.fmean(each))
    assert (found["p_z_ci_low"], found["p_z_ci_high"]) == pytest.approx(clustered_mean(each, range(4), 0, 1))
    assert found["expected_recall"] == pytest.approx(statistics.fmean(1 - (1 - p) ** 40 for p in each))
    shares = [statistics.fmean(1 - (1 - p) ** n >= 0.5 for p in each) for n in DRAWS]
    assert [found[f"discoverable_{n}"] for n in DRAWS] == shares == [1 / 4, 1 / 4, 2 / 4, 2 / 4, 2 / 4]
    assert (found["discoverable_1_ci_low"], found["discoverable_1_ci_high"]) == pytest.approx(clopper_pearson(1, 4))


def test_inextractability_is_that_of_the_likeliest_suffix():
    found = table(READINGS)
    assert found["inextractability"] == pytest.approx(-math.log2(max(2**-1, 2**-5, 2**-20)))
    assert found["inextractability_untruncated"] == 2
    assert table(READINGS[3:])["inextractability"] is None


def test_effort():
    found = table(READINGS)
    assert found["distinct"] == 8 / 40
    assert found["node_share"] == statistics.fmean(nodes / (40 * 20) for nodes in (100, 300, 800, 800))
    assert (found["model_calls"], found["n"]) == (5, 4)


@given(st.floats(0, 3000), st.sampled_from(DRAWS))
def test_probability_among_draws_is_that_of_exact_arithmetic(bits, draws):
    one = reading(p_z_bits=bits)
    exact = Fraction(float(Decimal(2) ** -Decimal(bits)))
    miss = Decimal((1 - exact).numerator) / Decimal((1 - exact).denominator)
    assert p_z(one) == pytest.approx(float(exact), rel=1e-12)
    if exact > Fraction(1, 10**30):
        assert drawn_within(draws, one) == pytest.approx(float(1 - miss**draws), rel=1e-9)
    else:
        assert drawn_within(draws, one) == pytest.approx(draws * float(exact), rel=1e-9)


@pytest.mark.parametrize("draws", DRAWS)
def test_discoverable_begins_where_the_chance_is_a_half(draws):
    metric = next(each for each in METRICS if each.name == f"discoverable_{draws}")
    edge = 1 - Decimal("0.5") ** (1 / Decimal(draws))
    bits = float(-edge.ln() / Decimal(2).ln())
    assert [metric.value(reading(p_z_bits=bits + step)) for step in (-1e-9, 1e-9)] == [1, 0]


@pytest.mark.parametrize("bits", [0.0, -1e-12])
def test_a_certain_suffix_is_certain(bits):
    found = table([reading(p_z_bits=bits)])
    assert (found["p_z"], found["expected_recall"], found["discoverable_1"]) == (1, 1, 1)


def test_the_range_of_expected_recall_is_binomial_where_all_are_alike():
    chances = [0.3] * 50
    low, high = stats.binom.ppf([0.025, 0.975], 50, 0.3) / 50
    assert (BY_CHANCE.low(chances), BY_CHANCE.high(chances)) == (low, high)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_range_of_expected_recall_is_that_of_all_outcomes(chances):
    shares = np.zeros(len(chances) + 1)
    for outcome in range(2 ** len(chances)):
        hits = [bool(outcome >> place & 1) for place in range(len(chances))]
        shares[sum(hits)] += math.prod(chance if hit else 1 - chance for chance, hit in zip(chances, hits, strict=True))
    for end, level in ((BY_CHANCE.low, 0.025), (BY_CHANCE.high, 0.975)):
        below = [shares[: hits + 1].sum() for hits in range(len(shares))]
        # Where rounding decides whether the level is reached, either answer will do.
        fitting = [next(hits for hits, sum_ in enumerate(below) if sum_ >= level + nudge) for nudge in (-1e-9, 1e-9)]
        assert round(end(chances) * len(chances)) in fitting


def test_a_certain_recall_has_no_range():
    assert (BY_CHANCE.low([1.0, 0.0, 1.0]), BY_CHANCE.high([1.0, 0.0, 1.0])) == (2 / 3, 2 / 3)


def challenge(text, answers, wrong):
    """The challenge's rule in so many words, on the text of a guess file with a guess a pair."""
    right = errors = 0
    for line in list(csv.reader(io.StringIO(text)))[1:]:
        guess = [int(token) for token in line[1][1:-1].split(",")]
        if guess == answers[int(line[0])]:
            right += errors < wrong
        else:
            errors += 1
    return right / len(answers)


@pytest.mark.parametrize("seed", [*range(20), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(20, 50))])
def test_early_stop_is_the_challenges_score_of_the_guess_file(seed, tmp_path):
    stream = random.Random(seed)
    wrong, pairs = stream.choice([1, 5, 30, 100]), stream.choice([40, 150, 400])
    answers = {pair: [stream.randrange(9) for _ in range(5)] for pair in range(pairs)}
    quality, levels = stream.random(), stream.choice([3, 10**6])
    readings, guesses = [], []
    for pair, answer in answers.items():
        right = stream.random() < quality
        # Few levels: many guesses are equally sure, with equal bits for some.
        confidence, bits = stream.randrange(levels) / levels, float(stream.randrange(4))
        readings.append(reading(pair, right=right, confidence=confidence, bits=bits))
        guesses.append(SuffixGuess(pair, tuple(answer if right else [*answer[:-1], 9]), confidence, bits))
    stream.shuffle(guesses)
    stream.shuffle(readings)
    write_submission(tmp_path / "guesses.csv", guesses)
    expected = challenge((tmp_path / "guesses.csv").read_text(), answers, wrong)
    assert table(readings, suffix_metrics(wrong))["recall_early_stop"] == expected
    judged = judged_guesses(read_submission(tmp_path / "guesses.csv"), answers)
    assert found_before(judged, wrong) / pairs == expected


def test_equally_sure_guesses_go_by_bits_then_by_pair():
    dear = [reading(0, right=False, bits=2.0), reading(1, right=True, bits=1.0)]
    same = [reading(0, right=False), reading(1, right=True)]
    assert table(dear, suffix_metrics(1))["recall_early_stop"] == 1 / 2
    assert table(same, suffix_metrics(1))["recall_early_stop"] == 0


def test_early_stop_reads_values_that_went_through_json():
    values = [Guessed(True, 0.9, 1.0, 3), None, Guessed(False, 0.95, 1.0, 4)]
    assert early_stop(1)(json.loads(json.dumps(values))) == early_stop(1)(values) == 0
    assert early_stop(2)(values) == 1 / 2


def test_early_stop_needs_a_wrong_guess_to_stop_at():
    with pytest.raises(OptionError, match="wrong=0: allow 1 wrong guess or more"):
        suffix_metrics(0)


def test_the_same_guesses_are_the_headlines_in_this_confidences_order():
    """The headline is right about pair 0 and wrong about pair 1; zlib by itself the other way round."""
    zlib = [Choice(0.9, 0.2, 2, 0.5, 1, 9.0), Choice(0.9, 0.8, 1, 0.0, 1, 9.0)]
    readings = [reading(pair, right=pair == 0, kind="confidence", other=zlib[pair]) for pair in (0, 1)]
    found = table(readings, suffix_metrics(1))
    assert found["recall_early_stop_same_guesses"] == 0
    assert table(readings, suffix_metrics(2))["recall_early_stop_same_guesses"] == 1 / 2
    assert found["recall"] == 1 / 2


@given(st.permutations(range(len(READINGS))))
def test_the_order_of_documents_changes_nothing(order):
    shuffled, found = table([READINGS[place] for place in order]), table(READINGS)
    assert shuffled == found


@pytest.mark.slow
def test_the_early_stop_s_interval_is_that_of_resampled_pairs():
    """Pairs drawn with replacement and the rule applied to each lot, one at a time and with another generator."""
    stream = random.Random(5)
    values = [Guessed(stream.random() < 0.5, stream.random(), 1.0, pair) for pair in range(80)]
    ends = early_stop_interval(8).low(values), early_stop_interval(8).high(values)
    lots = [[each._replace(pair=n) for n, each in enumerate(stream.choices(values, k=80))] for _ in range(4000)]
    expected = np.quantile([early_stop(8)(lot) for lot in lots], [0.025, 0.975])
    assert ends == pytest.approx(expected, abs=0.03)
    assert ends[0] < early_stop(8)(values) < ends[1]
    stream.shuffle(values)
    assert (early_stop_interval(8).low(values), early_stop_interval(8).high(values)) == ends


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pairs", "wrong"), [(1, 1), (9, 1), (15, 1), (20, 2), (999, 99), (1000, 100), (2000, 100), (15_000, 100)]
)
def test_wrong_guesses_are_allowed_in_the_benchmark_s_proportion(pairs, wrong):
    assert wrong_allowed(pairs) == wrong
    values = [Guessed(n % 3 > 0, 1 - n / pairs, 1.0, n) for n in range(pairs)]
    usual, given = early_stop_interval(), early_stop_interval(wrong)
    pairs_of_each = ((early_stop(), early_stop(wrong)), (usual.low, given.low), (usual.high, given.high))
    for unasked, asked in pairs_of_each:
        assert unasked(values) == asked(values)


def names(kind, **fields):
    return [each.name for each in METRICS if each.applies(reading(kind=kind, **fields))]


def with_ends(*values):
    return [name for value in values for name in (value, f"{value}_ci_low", f"{value}_ci_high")]


def test_rows_by_kind():
    guessed = with_ends("recall", "recall_early_stop")
    assert names("confidence") == [*guessed, "recall_early_stop_same_guesses"]
    assert names("length") == [*guessed, "p_z"]
    assert names("draws") == guessed
    discoverable = with_ends(*(f"discoverable_{n}" for n in DRAWS))
    expected = ["expected_recall", "drawn_range_low", "drawn_range_high", *with_ends("drawn")]
    least = ["inextractability", "inextractability_untruncated"]
    probable = [*with_ends("p_z"), *discoverable, *expected, *least]
    effort = ["distinct", "node_share", "model_calls", "n"]
    choice = with_ends("recall_at_3", "recall_at_100", "hdt")
    costs = ["n_documents", *with_ends("bits_per_token")]
    assert names("headline", nodes=5, samples=100) == [*guessed, *choice, *probable, *effort, *costs]
    first = with_ends("top1_tokens", "extraction_strength")
    assert names("headline", top1=2, top1_tail=1)[-len(first) :] == first


def test_the_table_is_a_dozen_rows():
    shown = {each.name for each in suffix_metrics(controls=True) if each.in_table}
    controls = {"control_recall", "control_p_z", "n_controls", "control_bits_per_token"}
    own = {*with_ends("recall", "p_z"), "p_z_most", "n", "bits_per_token", "cost_auc", "cost_p"}
    # Only a run with near= has the last four.
    assert shown == own | controls | {*with_ends("p_near"), "control_p_near"}


def test_the_hundred_surest_take_a_hundred_draws():
    assert "recall_at_100" not in names("headline", samples=99)


def test_a_model_that_tells_no_probabilities_has_no_rows_of_them():
    silent = names("headline", p_z_bits=None, reachable=None)
    lost = ("p_z", "discoverable", "expected", "inextractability", "node_share")
    assert [name for name in silent if name.startswith(lost)] == ["inextractability_untruncated"]


def test_directions_are_the_defenders():
    better = {each.name: each.higher_is_better for each in METRICS}
    higher = {name for name, value in better.items() if value}
    assert {name.split("_ci_")[0] for name in higher} == {
        "hdt", "inextractability", "inextractability_untruncated", "bits_per_token"
    }  # fmt: skip
    none = {name for name, value in better.items() if value is None}
    assert none == {"model_calls", "distinct", "node_share", "n", "n_documents", "p_z_base"}


def test_a_table_is_strict_json():
    found = table([reading(3, p_z_bits=None, reachable=False, own_bits=9000.0)])
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    values = [each.value(READINGS[0]) for each in METRICS]
    assert json.loads(json.dumps(values, allow_nan=False))


BASES = [(20.0, 30.0), (4.0, 9.0), (19.0, 2.5), (None, 40.0)]
"""Bits of the true suffix by the base model: under the scheme, and its own."""


def beside_their_base():
    """The four pairs of :func:`four`, each with what the model before fine-tuning makes of it."""
    return [
        dataclasses.replace(
            one,
            view=dataclasses.replace(
                one.view, base_p_z_bits=scheme, base_own_bits=own, base_reachable=scheme is not None
            ),
        )
        for one, (scheme, own) in zip(four(), BASES, strict=True)
    ]


def test_what_fine_tuning_added_is_taken_pair_by_pair():
    found = table(beside_their_base())
    now, before = [2.0**-1, 2.0**-5, 2.0**-20, 0.0], [2.0**-20, 2.0**-4, 2.0**-19, 0.0]
    assert found["p_z_base"] == pytest.approx(statistics.fmean(before))
    added = [one - other for one, other in zip(now, before, strict=True)]
    assert found["p_z_added"] == pytest.approx(found["p_z"] - found["p_z_base"]) == pytest.approx(sum(added) / 4)
    ends = clustered_mean(added, range(4), -1, 1)
    assert (found["p_z_added_ci_low"], found["p_z_added_ci_high"]) == pytest.approx(ends)
    own = [30.0 - 3.0, 9.0 - 9.0, 2.5 - 2.0, 40.0 - 5.0]
    assert found["bits_added"] == pytest.approx(sum(own) / 4)
    assert (found["bits_added_ci_low"], found["bits_added_ci_high"]) == (None, None)
    # Forty draws hold the first and the second with a probability of a half or more; the base's hold the second too.
    assert found["memorized_beyond_base"] == 1 / 4
    ends = found["memorized_beyond_base_ci_low"], found["memorized_beyond_base_ci_high"]
    assert ends == pytest.approx(clopper_pearson(1, 4))


def test_the_interval_of_the_bits_that_fine_tuning_added_is_studentized():
    readings = windows(2)
    found = table(readings)
    own = [one.view.base_own_bits - one.view.own_bits for one in readings]
    ends = studentized_mean(own, [one.document for one in readings])
    assert (found["bits_added_ci_low"], found["bits_added_ci_high"]) == ends != (None, None)


def test_without_a_base_there_are_no_such_rows_and_beams_tell_no_p_z_of_it():
    assert not [name for name in table(READINGS) if "base" in name or "added" in name]
    one = reading(0, p_z_bits=None, reachable=None, base_own_bits=9.0)
    assert [name for name in table([one]) if "base" in name or "added" in name] == [
        "bits_added",
        "bits_added_ci_low",
        "bits_added_ci_high",
    ]


def never_drawn(pairs, draws):
    """Readings of pairs whose suffix no draw was, each with a probability of 2^-60 to be one."""
    return [reading(pair, right=False, place=None, p_z_bits=60.0, samples=draws) for pair in range(pairs)]


@pytest.mark.parametrize(("pairs", "draws"), [(1, 1), (12, 8), (200, 100)])
def test_suffixes_that_no_draw_was_have_the_upper_end_that_the_draws_allow(pairs, draws):
    found = table(never_drawn(pairs, draws))
    assert found["p_z"] == pytest.approx(2.0**-60)
    assert 0 <= found["p_z_ci_low"] <= 2.0**-60
    assert found["p_z_ci_high"] == pytest.approx(1 - 0.025 ** (1 / (pairs * draws)))


def test_a_suffix_that_every_draw_was_has_the_lower_end_that_the_draws_allow():
    found = aggregates.SAMPLED_SHARE
    shares = [SampledShare(1.0, 20, 20)] * 3
    assert (found.low(shares), found.high(shares)) == pytest.approx(stats.binomtest(60, 60).proportion_ci())


def test_equal_probabilities_with_an_unknown_number_of_draws_leave_room_for_others():
    found = aggregates.SAMPLED_SHARE
    shares = [SampledShare(0.75, 0, 0)]
    assert (found.low(shares), found.high(shares)) == pytest.approx((0.75 * 0.025, 0.75 + 0.25 * 0.975))


def test_guesses_that_are_all_wrong_leave_room_for_right_ones():
    found = table(never_drawn(12, 8))
    room = 1 - 0.025 ** (1 / 12)
    assert found["hdt"] == 0.25
    assert (found["hdt_ci_low"], found["hdt_ci_high"]) == pytest.approx((0.25 * (1 - room), 0.25 + 0.75 * room))
    assert (found["recall_early_stop_ci_low"], found["recall_early_stop_ci_high"]) == pytest.approx((0.0, room))
    assert found["recall_ci_high"] == pytest.approx(room)


def test_differences_that_are_all_alike_leave_room_to_either_side():
    interval = aggregates.mean_between(-1, 1)
    room = 1 - 0.025 ** (1 / 5)
    assert (interval.low([0.5] * 5), interval.high([0.5] * 5)) == pytest.approx((0.5 - 1.5 * room, 0.5 + 0.5 * room))
