"""Coordinate search against the definition of where it ends, on tables of random losses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leakage_tasks.attacks.classifier.coordinate_search import Searches


class Tables:
    """Random losses of every filling of each canary's slots, and how many were asked for."""

    def __init__(self, sizes: list[tuple[int, ...]], seed: int) -> None:
        stream = np.random.default_rng(seed)
        self.losses = [stream.random(each) for each in sizes]
        self.slots = np.array([len(each) for each in sizes])
        self.calls = np.zeros(len(sizes), dtype=np.int64)

    def __call__(self, canaries: np.ndarray, places: np.ndarray) -> np.ndarray:
        np.add.at(self.calls, canaries, 1)
        return np.array([self.of(canary, row) for canary, row in zip(canaries, places, strict=True)])

    def of(self, canary: int, places: np.ndarray) -> float:
        return float(self.losses[canary][tuple(places[: self.slots[canary]])])

    def searches(self, canaries: list[int], seed: int = 0, budget: int = 10**6, alternatives: int = 9) -> Searches:
        stream, owners = np.random.default_rng(seed), np.array(canaries)
        widest = max(size for table in self.losses for size in table.shape)
        places = np.zeros((len(owners), self.slots.max()), dtype=np.int64)
        tried = np.full((*places.shape, min(alternatives, widest)), -1)
        for row, owner in enumerate(owners):
            for slot, size in enumerate(self.losses[owner].shape):
                places[row, slot] = stream.integers(size)
                few = stream.permutation(size)[:alternatives]
                tried[row, slot, : len(few)] = few
        losses = np.array([self.of(owner, row) for owner, row in zip(owners, places, strict=True)])
        return Searches(owners, places, losses, tried, self.slots[owners], np.full(len(self.losses), budget))


def ended(tables: Tables, searches: Searches) -> tuple[np.ndarray, np.ndarray]:
    searches.descend(tables)
    return searches.places, searches.losses


sizes = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3)


@settings(max_examples=40, deadline=None)
@given(sizes, st.integers(0, 1000), st.integers(1, 9), st.integers(0, 60))
def test_no_loss_rises_and_those_settled_are_coordinate_wise_optima(sizes, seed, alternatives, budget):
    tables = Tables(sizes, seed)
    searches = tables.searches([*range(len(sizes))] * 2, seed, budget, alternatives)
    before = searches.losses.copy()
    places, losses = ended(tables, searches)
    assert (losses <= before).all()
    assert losses.tolist() == [tables.of(*each) for each in zip(searches.canaries, places, strict=True)]
    for row in np.flatnonzero(searches.settled):
        for slot in range(searches.slots[row]):
            for value in searches.tried[row, slot][searches.tried[row, slot] >= 0]:
                other = places[row].copy()
                other[slot] = value
                assert tables.of(searches.canaries[row], other) >= losses[row] * (1 - 1e-8)


@settings(max_examples=20, deadline=None)
@given(sizes, st.integers(0, 1000), st.integers(0, 60))
def test_no_more_is_scored_than_the_budget_allows(sizes, seed, budget):
    tables = Tables(sizes, seed)
    searches = tables.searches([*range(len(sizes))] * 2, seed, budget)
    ended(tables, searches)
    assert tables.calls.tolist() == searches.calls.tolist()
    assert (searches.calls <= budget).all()


def test_with_enough_to_spend_all_are_settled():
    tables = Tables([(3, 3, 3), (4, 2)], 5)
    searches = tables.searches([0, 1, 1])
    ended(tables, searches)
    assert searches.settled.all()


@pytest.mark.parametrize("budget", [8, 30, 10**6])
def test_company_changes_nothing(budget):
    tables = Tables([(4, 4, 4), (3, 5), (2, 2, 2, 2)], 1)
    together = tables.searches([0, 1, 2], budget=budget)
    starts = together.places.copy()
    ended(tables, together)
    for canary in range(3):
        alone = Searches(
            np.array([canary]),
            starts[[canary]],
            np.array([tables.of(canary, starts[canary])]),
            together.tried[[canary]],
            together.slots[[canary]],
            np.full(3, budget),
        )
        ended(tables, alone)
        assert alone.places.tolist() == together.places[[canary]].tolist()
        assert alone.settled.tolist() == together.settled[[canary]].tolist()


def test_a_sum_over_slots_is_minimised_in_one_sweep():
    stream = np.random.default_rng(3)
    parts = stream.random((3, 5))
    tables = Tables([(5, 5, 5)], 0)
    tables.losses = [parts[0][:, None, None] + parts[1][None, :, None] + parts[2][None, None]]
    searches = tables.searches([0])
    places, _ = ended(tables, searches)
    assert places.tolist() == [parts.argmin(axis=1).tolist()]
    assert tables.calls[0] <= (3 + 2) * 4


def test_values_that_are_not_to_be_tried_are_not():
    tables = Tables([(6, 6)], 2)
    searches = tables.searches([0], alternatives=2)
    start, tried = searches.places[0].tolist(), searches.tried[0]
    places, _ = ended(tables, searches)
    assert all(value in {first, *some} for value, first, some in zip(places[0], start, tried.tolist(), strict=True))
