"""Differences before and after: tests that err as often as they say, intervals that hold, figures got otherwise."""

from __future__ import annotations

import itertools
import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.stats.paired import FEWEST_UNITS, mean_difference, newcombe, rate_difference, sign_flip

BITS = st.lists(st.floats(-30, 30).map(lambda bits: round(bits, 2)), min_size=1, max_size=9)
RUNS = 2000


@settings(max_examples=50, deadline=None)
@given(BITS)
def test_signs_are_flipped_in_every_way(changes: list[float]) -> None:
    flips = [
        abs(math.fsum(sign * each for sign, each in zip(signs, changes, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(changes))
    ]
    share = sum(each >= abs(math.fsum(changes)) - 1e-7 for each in flips) / len(flips)
    assert sign_flip(np.array(changes)) == pytest.approx(share)


def test_many_differences_are_tested_as_by_the_exact_one() -> None:
    changes = np.random.default_rng(0).normal(0.4, 1, 24)
    exact = stats.permutation_test(
        (changes,), lambda x, axis: x.mean(axis), permutation_type="samples", n_resamples=200_000, rng=1
    )
    assert sign_flip(changes) == pytest.approx(exact.pvalue, abs=0.005)


def test_no_difference_is_told_in_one_run_of_twenty() -> None:
    stream = np.random.default_rng(0)
    p = [sign_flip(stream.exponential(1, 12) - stream.exponential(1, 12)) for _ in range(300)]
    assert np.mean(np.array(p) <= 0.05) == pytest.approx(0.05, abs=0.035)


@pytest.mark.slow
def test_the_interval_of_a_mean_difference_holds() -> None:
    stream = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        before = stream.exponential(8, 20)
        found = mean_difference(before, before * stream.random(20))
        held += found.low <= -4.0 <= found.high
    assert 0.88 <= held / 300 <= 0.98


@pytest.mark.slow
def test_what_would_have_been_missed_shows_in_eight_of_ten_runs() -> None:
    stream = np.random.default_rng(0)
    before, noise = np.zeros(20), stream.normal(0, 1, (RUNS, 20))
    missed = np.mean([mean_difference(before, each).min_detectable for each in noise[:200]])
    shown = stats.ttest_1samp(noise + missed, 0, axis=1).pvalue <= 0.05
    assert shown.mean() == pytest.approx(0.8, abs=0.04)


@pytest.mark.parametrize("pairs", [6, 12])
def test_few_pairs_and_differences_that_are_all_alike_have_a_test_and_no_interval(pairs: int) -> None:
    found = mean_difference([5.0] * pairs, [1.0] * pairs)
    assert (found.value, found.low, found.high, found.min_detectable) == (-4.0, None, None, None)
    assert found.p == pytest.approx(2 / 2**pairs)


@pytest.mark.parametrize("units", range(1, FEWEST_UNITS + 2))
def test_a_change_can_be_shown_if_the_smallest_p_is_at_most_5_percent(units: int) -> None:
    means = mean_difference([5.0] * units, [1.0] * units)
    rates = rate_difference([True] * units, [False] * units)
    by_document = rate_difference([True] * 3 * units, [False] * 3 * units, [*range(units)] * 3)
    assert [found.p for found in (means, rates)] == pytest.approx([2 / 2**units] * 2)
    assert {found.units for found in (means, rates)} == {units}
    assert by_document.units == (units if units > 1 else 3)
    for found in (means, rates, by_document):
        assert found.can_be_shown == (found.p <= 0.05)


@given(*[st.integers(0, 12)] * 4)
def test_the_interval_of_rates_holds_the_difference_and_mirrors(both: int, first: int, second: int, no: int) -> None:
    count = both + first + second + no
    if count:
        low, high = newcombe(both, first, second, no)
        assert -1 - 1e-9 <= low <= (first - second) / count + 1e-9
        assert (first - second) / count - 1e-9 <= high <= 1 + 1e-9
        assert newcombe(both, second, first, no) == pytest.approx((-high, -low))


@pytest.mark.slow
def test_the_interval_of_rates_holds_as_often_as_it_says() -> None:
    stream = np.random.default_rng(0)
    for shares in ((0.5, 0.05, 0.2, 0.25), (0.1, 0.0, 0.1, 0.8), (0.3, 0.1, 0.1, 0.5)):
        tables = stream.multinomial(40, shares, size=RUNS)
        ends = [newcombe(*map(int, table)) for table in tables]
        held = np.mean([low <= shares[1] - shares[2] <= high for low, high in ends])
        assert 0.93 <= held <= 0.995


def test_rates_are_tested_by_those_that_changed() -> None:
    before, after = [True] * 10 + [False] * 10, [True] * 2 + [False] * 18
    found = rate_difference(before, after)
    assert found.value == -0.4
    assert found.p == pytest.approx(2 * 0.5**8)
    assert found.high is not None
    assert found.high < 0


def test_one_pair_per_document_or_a_single_document_is_mcnemars_test() -> None:
    before, after = [True] * 10 + [False] * 10, [True] * 2 + [False] * 17 + [True]
    alone = rate_difference(before, after)
    assert rate_difference(before, after, [*range(40, 20, -1)]) == alone
    assert rate_difference(before, after, [3] * 20) == alone


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 3)), min_size=5, max_size=20))
def test_pairs_of_several_documents_are_tested_by_the_signs_of_documents(
    pairs: list[tuple[bool, bool, int]],
) -> None:
    before, after, documents = ([*column] for column in zip(*pairs, strict=True))
    names = sorted(set(documents))
    if len(names) in (1, len(pairs)):
        return
    net = [sum(new - old for old, new, name in pairs if name == each) for each in names]
    flips = [
        abs(sum(sign * each for sign, each in zip(signs, net, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(net))
    ]
    share = sum(each >= abs(sum(net)) for each in flips) / len(flips)
    assert rate_difference(before, after, documents).p == pytest.approx(share)


def test_pairs_of_several_documents_change_in_one_run_of_twenty_and_their_interval_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("leakage_tasks.stats.paired.FLIPS", 500)
    stream, documents, runs = np.random.default_rng(0), np.repeat(np.arange(30), 8), 150
    covered = shown = shown_by_pair = 0
    for _ in range(runs):
        before, after = (stream.random(240) < stream.beta(0.4, 1.6, 30)[documents] for _ in range(2))
        found = rate_difference(before.tolist(), after.tolist(), documents.tolist())
        covered += found.low <= 0 <= found.high
        shown += found.p <= 0.05
        shown_by_pair += rate_difference(before.tolist(), after.tolist()).p <= 0.05
    assert covered >= 0.92 * runs
    assert shown <= 0.08 * runs < 0.2 * runs < shown_by_pair


def test_the_rate_that_pairs_of_several_documents_would_have_missed_shows_in_eight_of_ten_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("leakage_tasks.stats.paired.FLIPS", 500)
    stream, documents = np.random.default_rng(0), np.repeat(np.arange(12), 12).tolist()
    none = [False] * len(documents)
    missed = rate_difference(none, [index % 13 == 0 for index in range(len(documents))], documents).min_detectable
    assert missed == pytest.approx(0.069, abs=0.001)
    found = [rate_difference(none, (stream.random(144) < missed).tolist(), documents) for _ in range(200)]
    assert np.mean([each.p <= 0.05 for each in found]) == pytest.approx(0.8, abs=0.06)


def test_the_rate_that_would_have_been_missed_takes_six_that_change() -> None:
    missed = rate_difference([True] * 40, [True] * 40).min_detectable
    assert missed is not None
    assert stats.binom.sf(5, 40, missed) == pytest.approx(0.8)
    assert stats.binomtest(0, 6).pvalue < 0.05 < stats.binomtest(0, 5).pvalue


@pytest.mark.parametrize("compare", [mean_difference, rate_difference])
def test_nothing_to_compare_is_an_error(compare) -> None:
    with pytest.raises(ValueError, match="no pairs"):
        compare([], [])


def test_the_memory_of_a_test_does_not_grow_with_the_number_of_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    changes = np.random.default_rng(0).normal(0.1, 1, 300)
    whole = sign_flip(changes)
    monkeypatch.setattr("leakage_tasks.stats.paired._CELLS", 300 * 5000)
    assert sign_flip(changes) == whole
    tracemalloc.start()
    sign_flip(changes)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 40_000_000
