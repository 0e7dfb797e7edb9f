"""Intervals of the share of pairs found before a number of wrong guesses, against their definition and simulations."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from leakage_tasks.pairs.submission import found_before, wrong_allowed
from leakage_tasks.stats.early_stop import bootstrap_early_stop, early_stop_interval
from leakage_tasks.stats.intervals import clopper_pearson


def test_where_guesses_are_all_alike_their_early_stop_has_no_range():
    assert bootstrap_early_stop(enumerate([True] * 9), 9, 1) == (1, 1)
    assert bootstrap_early_stop(enumerate([False] * 9), 9, 3) == (0, 0)
    assert bootstrap_early_stop([], 9, 3) == (0, 0)


def test_an_early_stop_that_is_never_reached_is_the_binomial_range_of_the_share():
    right = [True] * 60 + [False] * 40
    low, high = bootstrap_early_stop(enumerate(right), 100, 101, resamples=4000)
    assert (low, high) == pytest.approx(stats.binom(100, 0.6).ppf([0.025, 0.975]) / 100, abs=0.02)


def test_resampling_in_parts_changes_nothing(monkeypatch):
    guesses = [(n, n % 3 > 0) for n in range(50)]
    whole = bootstrap_early_stop(guesses, 50, 5)
    monkeypatch.setattr("leakage_tasks.stats.intervals._CELLS", 50 * 7)
    assert bootstrap_early_stop(guesses, 50, 5) == whole


def _resampled_one_by_one(guesses, pairs, wrong, resamples=1000):
    """The interval by the words of the definition: each draw of a pair is a pair of its own, with all its guesses."""
    names = list(dict.fromkeys(pair for pair, _ in guesses))
    shares = []
    for drawn in np.random.default_rng(0).integers(pairs, size=(resamples, pairs)).tolist():
        found, missed = set(), 0
        for pair, right in guesses:
            for copy in [place for place, number in enumerate(drawn) if number == names.index(pair)]:
                if missed >= wrong:
                    break
                found |= {copy} if right else set()
                missed += not right
        shares.append(len(found) / pairs)
    return tuple(np.quantile(shares, [0.025, 0.975]))


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=14), st.integers(6, 9), st.integers(1, 4))
@settings(max_examples=15, deadline=None)
def test_pairs_with_several_guesses_or_none_are_resampled_with_all_they_have(guesses, pairs, wrong):
    assert bootstrap_early_stop(guesses, pairs, wrong) == pytest.approx(_resampled_one_by_one(guesses, pairs, wrong))


def test_nothing_to_resample_is_an_error():
    with pytest.raises(ValueError, match="no pairs"):
        bootstrap_early_stop([], 0, 1)


@pytest.mark.parametrize("late", [0, 1, 30])
def test_right_guesses_after_the_stop_do_not_shorten_the_interval(late):
    """Resamples without a find before the stop are all 0, which no number of further right guesses makes certain."""
    guesses = [(pair, pair >= 200 - late) for pair in range(200)]
    assert early_stop_interval(guesses, 200, 20) == pytest.approx((0, 1 - 0.025 ** (1 / 200)))


def test_windows_of_a_document_that_are_found_together_count_as_one():
    guesses = [(pair, pair < 4) for pair in range(40)]
    low, high = early_stop_interval(guesses, 40, 4, [pair // 4 for pair in range(40)])
    least, most = clopper_pearson(1, 10)
    assert low <= least
    assert high >= most


@pytest.mark.parametrize(("pairs", "right", "surer"), [(50, 0.04, 1.0), (200, 0.02, -0.5), (200, 0.3, 1.0)])
def test_the_interval_holds_as_often_as_stated(pairs, right, surer):
    """The expected share comes from many further runs of simulated pairs, with few or many finds before the stop."""
    stream, wrong = np.random.default_rng(0), wrong_allowed(pairs)

    def run():
        is_right = stream.random(pairs) < right
        order = np.argsort(-(stream.normal(size=pairs) + surer * is_right))
        return [(int(pair), bool(is_right[pair])) for pair in order]

    expected = np.mean([found_before(run(), wrong) / pairs for _ in range(3000)])
    ends = [early_stop_interval(run(), pairs, wrong) for _ in range(60)]
    assert stats.binom.sf(sum(not low <= expected <= high for low, high in ends) - 1, len(ends), 0.05) > 0.001
