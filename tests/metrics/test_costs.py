"""Costs of true suffixes by document, written a second way."""

from __future__ import annotations

from itertools import combinations, product
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.metrics.costs import SuffixCost, cost_auc, cost_p, cost_rows, extraction_strength, top1_tokens
from tests.drawn import reading

BITS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=3), min_size=2, max_size=6)


def costs(documents: list[list[int]], controls: list[list[int]]) -> list[SuffixCost]:
    return [
        SuffixCost(float(bits), number, control)
        for control, rows in ((False, documents), (True, controls))
        for number, row in enumerate(rows)
        for bits in row
    ]


@given(BITS, BITS)
def test_the_auc_counts_pairs_of_a_document_and_a_control(
    documents: list[list[int]], controls: list[list[int]]
) -> None:
    wins = [
        (fmean(one) < fmean(other)) + (fmean(one) == fmean(other)) / 2 for one, other in product(documents, controls)
    ]
    assert cost_auc(costs(documents, controls)) == pytest.approx(fmean(wins))


def test_one_document_is_compared_with_nothing() -> None:
    for documents, controls in (([[1, 2, 3]], [[4], [5]]), ([[1], [2]], [[4, 5]]), ([[1], [2]], [])):
        assert cost_auc(costs(documents, controls)) is None
        assert cost_p(costs(documents, controls)) is None
    assert cost_p(costs([[1], [2]], [[4], [5]])) == pytest.approx(1 / 6)


@given(BITS, BITS)
def test_p_is_the_share_of_divisions_with_ranks_as_low(documents: list[list[int]], controls: list[list[int]]) -> None:
    means = [fmean(rows) for rows in [*documents, *controls]]
    ranks = [sum(other < mean for other in means) + sum(other == mean for other in means) / 2 for mean in means]
    sums = [sum(chosen) for chosen in combinations(ranks, len(documents))]
    share = fmean(value <= sum(ranks[: len(documents)]) for value in sums)
    assert cost_p(costs(documents, controls)) == pytest.approx(share)


def test_a_mean_of_one_document_has_no_interval() -> None:
    rows = {row.name: row for row in cost_rows(False, lambda selected: True)}
    values = [rows["bits_per_token"].value(reading(pair, document=0, own_bits=20.0 + pair)) for pair in range(4)]
    assert rows["bits_per_token"].aggregate(values) == pytest.approx(21.5 / 20)
    assert rows["bits_per_token_ci_low"].aggregate(values) is None


def test_first_choices_are_shares_of_the_suffix() -> None:
    one = reading(top1=5, top1_tail=2)
    assert (top1_tokens(one), extraction_strength(one)) == (5 / 20, 2 / 20)
    assert top1_tokens(reading()) is None
