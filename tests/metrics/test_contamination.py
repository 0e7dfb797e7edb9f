"""Rows of ``contamination_test`` from made-up findings, and the verdict on them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.contamination.finding import OrderFinding, TextCost, TwinFinding
from leakage_tasks.metrics.contamination import contamination_rows
from leakage_tasks.metrics.contamination_twins import signed_rank_p
from leakage_tasks.metrics.verdict import verdict_of
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.membership import paired_auc


def figures(found, **settings):
    return {
        row.name: row.aggregate([row.value(finding) for finding in found]) for row in contamination_rows(**settings)
    }


def orders(gain, shards=12, shuffles=9, seed=0):
    rows = np.random.default_rng(seed).normal(size=(shards, shuffles + 1))
    return [OrderFinding(index, 5, own + gain, tuple(rest), 2) for index, (own, *rest) in enumerate(rows.tolist())]


def twins(gain, count=30, tokens=10):
    costs = np.random.default_rng(1).uniform(20, 30, (count, 2))
    return [
        TwinFinding(
            index,
            TextCost(item - gain, tokens, 50, 5, 9.0, 3.0, 1, 2.0, 1.0),
            TextCost(twin, tokens, 50, 5, 9.0, None, 1, None, 3.0),
        )
        for index, (item, twin) in enumerate(costs.tolist())
    ]


def test_each_row_counts_findings_of_its_kind():
    found = figures([*orders(0), *twins(0)], twins=True, near=True)
    assert (found["n_shards"], found["n_items"], found["n_twins"], found["windows"]) == (12, 60, 30, 2)
    assert found["n_orders"] == pytest.approx(10.0**12)
    assert (found["p_z"], found["twin_p_z"]) == (0.125, 0)
    assert (found["p_near"], found["p_near_high"], found["twin_p_near"]) == (0.25, 0.5, 0)
    assert found["p_near_ci_low"] <= 0.25
    assert found["p_near_ci_high"] >= 0.5


def test_without_twins_there_are_no_rows_of_twins():
    assert not [row.name for row in contamination_rows(twins=False) if "twin" in row.name or "p_z" in row.name]
    assert not [row.name for row in contamination_rows(twins=True) if "near" in row.name]


def test_the_share_of_less_likely_shuffles_has_an_interval_over_shards_or_shuffles():
    many = figures(orders(0.5, shards=40), twins=False)
    assert 0.5 < many["order_preferred_ci_low"] < many["order_preferred"] < many["order_preferred_ci_high"] < 1
    one = figures([OrderFinding(0, 9, 0.0, (-1.0, -2.0, -3.0, 1.0, 0.0))], twins=False)
    assert one["order_preferred"] == pytest.approx(3.5 / 5)
    assert (one["order_preferred_ci_low"], one["order_preferred_ci_high"]) == clopper_pearson(4, 5)
    assert (one["order_p"], one["order_t_p"], one["order_gain_ci_low"]) == (3 / 6, None, None)


def test_costs_of_items_and_twins_are_compared_in_pairs():
    pairs = twins(2.0)
    found = figures(pairs, twins=True)
    gains = [(each.twin.bits - each.item.bits) / 10 for each in pairs]
    assert found["twin_gain"] == pytest.approx(np.mean(gains))
    assert found["twin_p"] == pytest.approx(stats.wilcoxon(gains, alternative="greater").pvalue)
    area = stats.mannwhitneyu([each.twin.bits for each in pairs], [each.item.bits for each in pairs]).statistic / 30**2
    assert found["twin_auc"] == pytest.approx(area)
    ends = paired_auc([-each.item.rate for each in pairs], [-each.twin.rate for each in pairs])[1:]
    assert (found["twin_auc_ci_low"], found["twin_auc_ci_high"]) == ends
    assert found["p_z_p"] < 1e-6
    equal = [TwinFinding(index, each.item, each.item) for index, each in enumerate(pairs)]
    assert figures(equal, twins=True)["twin_p"] == 1.0


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (1, 1, 2, 2, 3, 3, 3, -1), (5, -1, -1, 2, 2, 2), (-1, -1)])
def test_equal_differences_have_the_p_value_of_all_signs(sizes):
    ranks = stats.rankdata(np.abs(sizes))
    reached = sum(rank for rank, size in zip(ranks, sizes, strict=True) if size > 0)
    sums = [sum(itertools.compress(ranks, signs)) for signs in itertools.product((0, 1), repeat=len(sizes))]
    assert signed_rank_p([*sizes, *[0] * 15]) == pytest.approx(np.mean([total >= reached for total in sums]))


def test_the_p_value_of_many_equal_differences_is_near_the_approximation():
    sizes = np.resize([0.5, 0.5, -0.5], 500) + 0.1
    assert signed_rank_p(sizes) == pytest.approx(stats.wilcoxon(sizes, alternative="greater").pvalue, rel=0.1)


@pytest.mark.parametrize(
    ("found", "short"),
    [
        (orders(3), "order known"),
        (orders(0), "order not shown"),
        (orders(-3), "order not shown"),
        ([OrderFinding(0, 3, 1.0, (0.0,) * 5)], "inconclusive"),
    ],
)
def test_the_verdict_follows_the_exact_test(found, short):
    verdict = verdict_of(figures(found, twins=False), {})
    assert verdict.short == short
    assert verdict.because


@pytest.mark.parametrize("values", [{"order_p": 0.01}, {"order_p": 0.01, "order_preferred": 7.0}])
def test_results_of_others_are_not_trusted(values):
    assert verdict_of(values, {}).short == "inconclusive"
