"""Banded edit distances against those of another library, and the ends that they can still have."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.metrics.distance import edit_distance

from leakage_tasks.targets.suffix.edit_band import BandWindow, EditBand, within

TOKENS = st.integers(0, 2)


def rows_of(truth: list[int], tokens: list[int], most: int) -> np.ndarray:
    """The row after all of the tokens, with ``BandWindow`` and, for other tokens, its last row."""
    band = EditBand(len(truth), most)
    row = band.first()
    for drawn, token in enumerate(tokens, start=1):
        window = BandWindow.at(band, np.array([truth]), drawn)
        matches = np.flatnonzero((window.tokens[0] == token) & window.distinct[0])
        assert len(matches) <= 1
        row = band.follow(row, window.equal[0, matches[0] if len(matches) else -1], drawn)
    return row


@given(st.lists(TOKENS, min_size=1, max_size=8), st.data())
def test_distances_are_those_of_another_library(truth: list[int], data: st.DataObject) -> None:
    most = data.draw(st.integers(0, len(truth)))
    tokens = data.draw(st.lists(st.integers(0, 3), max_size=len(truth)))
    row = rows_of(truth, tokens, most)
    for place, position in enumerate(range(len(tokens) - most, len(tokens) + most + 1)):
        inside = 0 <= position <= len(truth)
        expected = edit_distance(tokens, truth[:position]) if inside else most + 1
        assert row[place] == min(expected, most + 1)


@pytest.mark.parametrize("drawn", range(5))
def test_least_and_worst_are_ends_of_all_continuations(drawn: int) -> None:
    """Token 9 is in no true suffix, so that the worst continuation exists."""
    random = np.random.default_rng(drawn)
    for _ in range(6):
        truth, tokens = random.integers(0, 3, 4).tolist(), random.integers(0, 3, drawn).tolist()
        most = int(random.integers(0, 4))
        band, row = EditBand(4, most), rows_of(truth, tokens, most)
        rests = itertools.product([0, 1, 2, 9], repeat=4 - drawn)
        ends = [edit_distance([*tokens, *rest], truth) for rest in rests]
        assert (band.least(row, drawn) <= most) == (min(ends) <= most)
        assert (band.worst(row, drawn) <= most) == (max(ends) <= most)
        if min(ends) <= most:
            assert band.least(row, drawn) == min(ends)


@given(st.integers(1, 9), st.integers(0, 4), st.integers(0, 2**32 - 1))
def test_rows_within_a_distance_are_those_by_another_library(length: int, most: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    tokens, truth = random.integers(0, 3, (5, length)), random.integers(0, 3, length).tolist()
    expected = [edit_distance(row, truth) <= most for row in tokens.tolist()]
    assert within(tokens, truth, most).tolist() == expected
