"""The AUC of an attack beside blind baselines: exact values, invariances, and rates of errors in simulations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.auc_comparison import (
    RESAMPLES,
    BlindComparison,
    _cluster_weights,
    _strata,
    _WeightedAuc,
    compare_with_blind,
    resampled_aucs,
)
from leakage_tasks.stats.membership import Estimate, auc

ROWS = st.lists(
    st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.booleans(), st.integers(0, 5)), min_size=2, max_size=25
).filter(lambda rows: len({row[2] for row in rows}) == 2)


def compared(attack: FloatArray, blind: FloatArray, members: FloatArray, clusters: FloatArray) -> BlindComparison:
    (found,) = compare_with_blind({"loss": attack}, {"words": blind}, members, clusters).values()
    return found


@given(ROWS)
def test_weighted_aucs_are_those_of_repeated_texts(rows: list[tuple[int, int, bool, int]]) -> None:
    """Oracle: scikit-learn's AUC of the texts of the resampled clusters, one by one."""
    scores, _, members, clusters = (np.array(column) for column in zip(*rows, strict=True))
    which = np.unique(clusters, return_inverse=True)[1]
    weights = _cluster_weights(_strata(members, which), 5, np.random.default_rng(3))
    found = _WeightedAuc(scores.astype(float), members)(weights[:, which])
    for weight, value in zip(weights, found, strict=True):
        drawn = np.repeat(np.arange(len(scores)), weight[which].astype(int))
        if len(set(members[drawn].tolist())) == 2:
            assert value == pytest.approx(roc_auc_score(members[drawn], scores[drawn]))
        else:
            assert value == 0.5


def test_clusters_of_each_kind_are_resampled_among_themselves() -> None:
    strata = np.array([0, 0, 0, 2, 2, 1])
    weights = _cluster_weights(strata, 500, np.random.default_rng(0))
    assert (weights[:, :3].sum(axis=1) == 3).all()
    assert (weights[:, 3:5].sum(axis=1) == 2).all()
    assert (weights[:, 5] == 1).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(6), abs=0.15)


@given(ROWS)
def test_the_order_of_texts_and_a_monotone_map_of_scores_change_nothing(
    rows: list[tuple[int, int, bool, int]],
) -> None:
    whole = compared(*(np.array(column) for column in zip(*rows, strict=True)))
    attack, blind, members, clusters = (np.array(column)[::-1] for column in zip(*rows, strict=True))
    found = compared(np.exp(attack), 3 * blind - 7, members, clusters)
    assert found.difference == pytest.approx(whole.difference, abs=1e-12)
    assert found.baselines["words"] == pytest.approx(whole.baselines["words"], abs=1e-12)
    assert found.p == pytest.approx(whole.p, abs=3 / RESAMPLES)


def test_other_attacks_change_nothing() -> None:
    stream = np.random.default_rng(0)
    one, two, blind = stream.normal(size=(3, 40))
    members, clusters = np.repeat([True, False], 20), np.arange(40) // 2
    both = compare_with_blind({"a": one, "b": two}, {"words": blind}, members, clusters)
    assert both["b"] == compare_with_blind({"b": two}, {"words": blind}, members, clusters)["b"]


def test_reversed_classes_give_one_minus_the_auc() -> None:
    stream = np.random.default_rng(0)
    scores, members = stream.normal(size=(2, 30)), np.repeat([True, False], 15)
    values, _ = resampled_aucs(scores, members, np.arange(30))
    reversed_values, _ = resampled_aucs(scores, ~members, np.arange(30))
    assert values + reversed_values == pytest.approx([1, 1])
    assert values == pytest.approx([roc_auc_score(members, row) for row in scores])


def test_dependent_texts_widen_the_interval() -> None:
    stream = np.random.default_rng(0)
    members, clusters = np.repeat([True, False], 100), np.arange(200) // 10
    attack = np.repeat(stream.normal(size=20), 10) + 0.3 * stream.normal(size=200)
    blind = stream.normal(size=200)
    by_cluster = compared(attack, blind, members, clusters).difference
    by_text = compared(attack, blind, members, np.arange(200)).difference
    assert by_cluster.value == by_text.value
    assert by_cluster.high - by_cluster.low > 1.3 * (by_text.high - by_text.low)


def test_an_attack_must_be_above_every_baseline() -> None:
    stream = np.random.default_rng(0)
    members = np.repeat([True, False], 100)
    attack, dates = stream.normal(size=(2, 200)) + 2.0 * members
    words = stream.normal(size=200)
    found = compare_with_blind({"loss": attack}, {"words": words, "dates": dates}, members, range(200))["loss"]
    assert found.best == "dates"
    assert found.p > 0.05
    assert found.blind_p < 0.01
    assert compare_with_blind({"loss": attack}, {"words": words}, members, range(200))["loss"].p < 0.01


def test_an_attack_below_chance_is_not_above_a_baseline_further_below() -> None:
    members = np.repeat([True, False], 50)
    found = compared(np.random.default_rng(1).normal(size=100), -1.0 * members, members, range(100))
    assert found.difference.low > 0
    assert found.p > 0.05


@pytest.mark.parametrize(
    ("members", "blind"), [([True, True], {"words": [0, 1]}), ([False, False], {"words": [0, 1]}), ([True, False], {})]
)
def test_a_comparison_needs_both_classes_and_a_baseline(members: list[bool], blind: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError, match="needs members, non-members and a blind baseline"):
        compare_with_blind({"loss": [0, 1]}, blind, members, [0, 1])


def test_without_a_difference_an_attack_is_above_in_less_than_5_percent_of_runs() -> None:
    """200 runs of an attack as good as the best baseline, both better than chance: at most 5 % ± 2 standard errors."""
    stream, above = np.random.default_rng(0), 0
    members = np.repeat([True, False], 30)
    for _ in range(200):
        attack, words, dates = stream.normal(size=(3, 60)) + members
        blind = {"words": words, "dates": dates}
        above += compare_with_blind({"loss": attack}, blind, members, range(60))["loss"].p <= 0.05
    assert above / 200 <= 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5


def test_separated_classes_have_newcombe_s_interval_although_no_resample_differs() -> None:
    members, scores = [True] * 6 + [False] * 8, [*range(14, 0, -1)]
    expected = auc([1.0] * 6, [0.0] * 8)
    both = compare_with_blind({"loss": scores}, {"words": scores}, members, range(14))["loss"]
    assert both.baselines["words"] == expected
    assert both.difference == Estimate(0.0, expected.low - 1, 1 - expected.low)
    texts_of_three_authors = [number % 3 for number in range(6)] + [3 + number % 3 for number in range(8)]
    clustered = compare_with_blind({"loss": scores}, {"words": scores}, members, texts_of_three_authors)["loss"]
    assert clustered.baselines["words"] == auc([1.0] * 3, [0.0] * 3)


def test_a_baseline_that_tells_no_text_apart_is_at_chance_exactly() -> None:
    members, scores = [True] * 6 + [False] * 8, [*range(14, 0, -1)]
    found = compare_with_blind({"loss": scores}, {"words": [0.0] * 14}, members, range(14))["loss"]
    assert found.baselines["words"] == Estimate(0.5, 0.5, 0.5)
    assert found.difference == pytest.approx((0.5, auc([1.0] * 6, [0.0] * 8).low - 0.5, 0.5))


def test_full_separation_of_few_texts_is_as_likely_by_chance_as_its_share_of_assignments() -> None:
    members, scores = [True] * 2 + [False] * 2, [4.0, 3.0, 2.0, 1.0]
    found = compare_with_blind({"loss": scores}, {"words": [0.0] * 4}, members, range(4))["loss"]
    assignments = [*itertools.combinations(scores, 2)]
    assert found.p == sum(chosen == (4.0, 3.0) for chosen in assignments) / len(assignments)
    blind = compare_with_blind({"loss": [0.0] * 4}, {"words": scores}, members, range(4))["loss"]
    assert blind.blind_p == found.p


@pytest.mark.parametrize(("own", "others"), [(1, 20), (20, 1), (2, 20)])
def test_a_class_of_one_or_two_clusters_is_not_above_chance_by_chance(own: int, others: int) -> None:
    """Such a class hardly varies in resamples: with one cluster, p was 5 % or less in a fifth of the runs."""
    rng = np.random.default_rng(7)
    clusters = np.repeat(np.arange(own + others), 5)
    shown, held = [], []
    for _ in range(60):
        attack, blind = (
            np.repeat(rng.normal(size=own + others), 5) + 0.7 * rng.normal(size=len(clusters)) for _ in range(2)
        )
        found = compared(attack, blind, clusters < own, clusters)
        shown += [found.p <= 0.05, found.blind_p <= 0.05]
        held += [found.difference.low <= 0 <= found.difference.high]
    assert np.mean(shown) <= 0.05
    assert np.mean(held) > 0.9
