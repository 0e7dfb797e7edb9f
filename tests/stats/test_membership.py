"""AUC of scores in clusters, against its formula written out and against simulations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm, t

from leakage_tasks.stats.membership import (
    auc,
    auc_interval,
    clustered_auc,
    paired_auc,
    placements,
    threshold_ends,
)

SCORES = st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), min_size=1, max_size=8)


@given(SCORES, SCORES)
def test_placements_are_shares_of_the_pairs(members, others):
    above, exceeded = placements(members, others)
    share = [[(m > o) + 0.5 * (m == o) for o in others] for m in members]
    assert above == pytest.approx(np.mean(share, axis=1))
    assert exceeded == pytest.approx(np.mean(share, axis=0))
    assert above.mean() == pytest.approx(auc(members, others).value)


@given(SCORES, SCORES)
def test_texts_without_clusters_have_the_plain_interval(members, others):
    clusters = range(len(members)), range(len(members), len(members) + len(others))
    assert clustered_auc(members, others, *clusters) == auc(members, others)


def test_the_design_effect_is_that_of_obuchowski():
    """The variance of sums over clusters, with members and others of one cluster together, by loops."""
    rng = np.random.default_rng(0)
    own, other = rng.integers(0, 6, 20).tolist(), rng.integers(4, 11, 30).tolist()
    centre = rng.normal(size=11)
    members = [centre[cluster] + 0.3 * rng.normal() + 0.5 for cluster in own]
    others = [centre[cluster] + 0.3 * rng.normal() for cluster in other]
    value = np.mean([m > o for m, o in itertools.product(members, others)])
    above = [np.mean([m > o for o in others]) - value for m in members]
    below = [np.mean([m > o for m in members]) - value for o in others]
    first = {c: sum(v for v, k in zip(above, own, strict=True) if k == c) for c in range(11)}
    second = {c: sum(v for v, k in zip(below, other, strict=True) if k == c) for c in range(11)}
    ones, twos, all_ = len(set(own)), len(set(other)), len({*own, *other})
    variance = (
        ones / (ones - 1) * sum(v**2 for v in first.values()) / 20**2
        + twos / (twos - 1) * sum(v**2 for v in second.values()) / 30**2
        + 2 * all_ / (all_ - 1) * sum(first[c] * second[c] for c in range(11)) / (20 * 30)
    )
    plain = np.var(above, ddof=1) / 20 + np.var(below, ddof=1) / 30
    of_members = ones / (ones - 1) * sum(v**2 for v in first.values()) / 20**2
    of_others = twos / (twos - 1) * sum(v**2 for v in second.values()) / 30**2
    # The degrees of freedom are those of Welch's t-test.
    by_cluster = (of_members + of_others) ** 2 / (of_members**2 / (ones - 1) + of_others**2 / (twos - 1))
    by_text = plain**2 / ((np.var(above, ddof=1) / 20) ** 2 / 19 + (np.var(below, ddof=1) / 30) ** 2 / 29)
    effect = variance / plain * (t.ppf(0.975, by_cluster) / t.ppf(0.975, by_text)) ** 2
    assert effect > 1.5
    expected = auc_interval(value, 20 / effect, 30 / effect)
    assert clustered_auc(members, others, own, other) == pytest.approx((value, *expected))


def test_copies_of_a_text_in_one_cluster_add_no_certainty():
    rng = np.random.default_rng(1)
    members, others = (rng.normal(size=40) + 0.5).tolist(), rng.normal(size=40).tolist()
    once = auc(members, others)
    clusters = list(range(40)) * 5, list(range(40, 80)) * 5
    again = clustered_auc(members * 5, others * 5, *clusters)
    assert again.value == pytest.approx(once.value)
    assert (again.low, again.high) == pytest.approx((once.low, once.high), abs=0.01)
    perfect = clustered_auc([1.0] * 20, [0.0] * 20, [0] * 10 + [1] * 10, [2] * 10 + [3] * 10)
    assert perfect == pytest.approx((1.0, *auc_interval(1.0, 2, 2)))


def test_the_interval_holds_the_true_auc_of_clustered_scores():
    """Without clusters, the interval of 15 clusters of 4 equal texts would hold it in about 70 %."""
    rng = np.random.default_rng(2)
    own = np.repeat(np.arange(15), 4).tolist()
    other = (np.repeat(np.arange(15), 4) + 15).tolist()
    held = []
    for _ in range(300):
        centres = np.repeat(rng.normal(size=30), 4) + 0.2 * rng.normal(size=120)
        found = clustered_auc(centres[:60].tolist(), centres[60:].tolist(), own, other)
        held.append(found.low <= 0.5 <= found.high)
    assert np.mean(held) > 0.92


@pytest.mark.parametrize(("own", "others"), [(1, 1), (1, 50), (50, 1), (2, 2), (5, 5)])
def test_the_interval_of_few_clusters_holds_the_true_auc(own, others):
    """A single cluster does not show how much clusters differ: as independent texts, 25 to 47 % of intervals held."""
    rng = np.random.default_rng(3)
    sizes = 50 // own, 50 // others
    clusters = np.repeat(np.arange(own), sizes[0]).tolist(), np.repeat(np.arange(others) + own, sizes[1]).tolist()
    held = []
    for _ in range(100):
        scores = [
            np.repeat(rng.normal(size=number), size) + 0.7 * rng.normal(size=50)
            for number, size in zip((own, others), sizes, strict=True)
        ]
        found = clustered_auc(scores[0].tolist(), scores[1].tolist(), *clusters)
        held.append(found.low <= 0.5 <= found.high)
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("one_in", [2, 10, 100, 1000])
def test_the_ends_of_a_threshold_are_order_statistics_by_binomial_quantiles(one_in):
    for number in (1, 2, 7, 99, 367, 369, 3000):
        scores = np.random.default_rng(number).normal(size=number).tolist()
        ordered = [np.inf, *sorted(scores, reverse=True), -np.inf]
        first, last = (int(binom.ppf(level, number, 1 / one_in)) for level in (0.025, 0.975))
        expected = ordered[first], ordered[last + 1]
        assert threshold_ends(scores, one_in) == threshold_ends(scores, one_in, range(number)) == expected


def test_the_ends_of_a_threshold_hold_it_for_clustered_scores():
    """As independent scores, 20 clusters of 50 would hold it in about a quarter of the runs."""
    rng, clusters, held = np.random.default_rng(4), np.repeat(np.arange(20), 50).tolist(), []
    for _ in range(100):
        scores = np.repeat(rng.normal(size=20), 50) * 0.975 + rng.normal(size=1000) * 0.222
        highest, lowest = threshold_ends(scores.tolist(), 10, clusters)
        held.append(lowest <= norm.ppf(0.9) <= highest)
    assert np.mean(held) > 0.93


@pytest.mark.parametrize("number", [6, 20, 100])
def test_the_interval_of_pairs_is_short_and_holds_the_true_auc(number):
    """Scores of pairs with a correlation of 0.9; as independent scores, all intervals held it, twice as long."""
    rng, held, lengths = np.random.default_rng(5), [], []
    for _ in range(200):
        both = rng.normal(size=number) * 3
        members, others = both + rng.normal(size=number) + 1, both + rng.normal(size=number)
        found, plain = paired_auc(members.tolist(), others.tolist()), auc(members.tolist(), others.tolist())
        held.append(found.low <= norm.cdf(1 / np.sqrt(20)) <= found.high)
        lengths.append((found.high - found.low) / (plain.high - plain.low))
    assert 0.9 < np.mean(held) < 0.995
    assert np.mean(lengths) < (0.8 if number == 6 else 0.6)


def test_pairs_of_independent_scores_have_about_the_plain_interval():
    rng = np.random.default_rng(6)
    members, others = (rng.normal(size=2000).tolist() for _ in range(2))
    assert paired_auc(members, others) == pytest.approx(auc(members, others), abs=0.002)


def test_pairs_without_a_variance_have_the_plain_interval():
    for members, others in (([1.0], [0.0]), ([1.0, 2.0], [1.0, 2.0]), ([3.0, 2.0], [0.0, 1.0])):
        assert paired_auc(members, others) == auc(members, others)
