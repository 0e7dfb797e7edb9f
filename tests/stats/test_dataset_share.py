"""The lower bound on the share of a data set that a model was trained on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.stats.dataset_share import best_threshold, least_share_used
from leakage_tasks.stats.intervals import clopper_pearson

MEMBERS = np.repeat([True, False], 100)


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=20))
def test_the_threshold_has_the_largest_difference_of_rates(rows: list[tuple[int, bool]]) -> None:
    scores, members = (np.array(column) for column in zip(*rows, strict=True))
    if len(set(members.tolist())) < 2:
        return

    def gain(threshold: float) -> float:
        return float((scores[members] > threshold).mean() - (scores[~members] > threshold).mean())

    best = max(gain(threshold) for threshold in (-1, *range(6)))
    assert gain(best_threshold(scores.astype(float), members)) == pytest.approx(best)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_it_is_near_the_share_for_an_attack_that_is_always_right(share: float) -> None:
    stream = np.random.default_rng(0)
    used = MEMBERS & (np.arange(200) < 100 * share)
    scores = [stream.normal(size=200) + 20 * used]
    found = least_share_used(scores, MEMBERS, np.arange(200))
    assert found.low <= share <= found.high + 0.02
    assert found.value == pytest.approx(share, abs=0.06)


@pytest.mark.slow
def test_it_holds_in_95_percent_of_runs_for_an_attack_that_misses_some() -> None:
    stream, held, values = np.random.default_rng(0), 0, []
    for _ in range(100):
        used = MEMBERS & (stream.random(200) < 0.5)
        found = least_share_used([stream.normal(size=200) + 2 * used], MEMBERS, np.arange(200))
        held += found.low <= used.sum() / 100
        values.append(found.value)
    assert held >= 95
    assert 0.3 < np.mean(values) < 0.5


def test_it_holds_for_the_share_that_24_texts_are_drawn_with() -> None:
    """A bootstrap alone holds it in 35 of these 40 runs: if all 24 texts were used, it has no width."""
    stream, held, suspected = np.random.default_rng(0), 0, np.repeat([True, False], [24, 8])
    for _ in range(40):
        used = suspected & (stream.random(32) < 0.9)
        held += least_share_used([stream.normal(size=32) + 20 * used], suspected, np.arange(32)).low <= 0.9
    assert held >= 39


def test_rates_of_0_and_1_give_an_interval_with_a_width() -> None:
    members = np.repeat([True, False], [24, 8])
    found = least_share_used([members * 10.0 + np.arange(32) / 100], members, np.arange(32))
    assert (found.value, found.high) == (1.0, 1.0)
    guessed, not_guessed = (clopper_pearson(count, count)[0] for count in (24, 8))
    # No false positive at all, and the largest rate of them that Clopper and Pearson allow.
    assert (guessed - (1 - not_guessed)) / not_guessed < found.low < guessed


def test_few_clusters_are_refused() -> None:
    with pytest.raises(ValueError, match="clusters"):
        least_share_used([np.arange(200.0)], MEMBERS, np.arange(200) // 50)
