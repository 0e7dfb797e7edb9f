"""Shards and orders of a contamination test."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.attacks.contamination.request import MOST_SHARDS, OrderRequest
from leakage_tasks.core.errors import OptionError


@given(st.integers(4, 3000), st.integers(2, 60))
def test_shards_are_consecutive_and_of_equal_size(items, shards):
    if items < 2 * shards:
        with pytest.raises(OptionError, match="use fewer shards, more items, or form=permutation"):
            OrderRequest(shards=shards).parts(items)
        return
    parts = OrderRequest(shards=shards).parts(items)
    assert list(itertools.chain(*parts)) == list(range(items))
    sizes = {len(part) for part in parts}
    assert len(parts) == shards
    assert max(sizes) - min(sizes) <= 1


def test_defaults_make_shards_of_two_or_more_items():
    assert len(OrderRequest().parts(1319)) == MOST_SHARDS
    assert [len(part) for part in OrderRequest().parts(7)] == [3, 2, 2]
    assert OrderRequest(form="permutation").parts(7) == [range(7)]


def test_few_orders_are_all_compared():
    request = OrderRequest(permutations=100)
    orders = request.orders(0, 4)
    assert sorted([*orders, (0, 1, 2, 3)]) == sorted(itertools.permutations(range(4)))
    assert len(OrderRequest(permutations=22).orders(0, 4)) == 22
    assert len(OrderRequest(permutations=23).orders(0, 4)) == 23


def test_shuffles_are_uniform_repeatable_and_different_for_each_shard():
    request = OrderRequest(permutations=4800, seed=3)
    drawn = Counter(request.orders(1, 7)[:4800])
    first = Counter(order[0] for order in drawn.elements())
    assert all(abs(number - 4800 / 7) < 130 for number in first.values())
    assert request.orders(1, 7) == OrderRequest(permutations=4800, seed=3).orders(1, 7)
    assert request.orders(1, 7)[:5] != request.orders(2, 7)[:5]
    assert request.orders(1, 7)[:5] != OrderRequest(permutations=4800, seed=4).orders(1, 7)[:5]


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"shards": 1}, "shards=1: the t-test compares 2 or more: raise shards, or use form=permutation"),
        ({"shards": 3, "form": "permutation"}, "shards has no use with form=permutation"),
    ],
)
def test_options_that_do_not_fit_are_refused(given_, message):
    with pytest.raises(OptionError, match=message):
        OrderRequest(**given_)
