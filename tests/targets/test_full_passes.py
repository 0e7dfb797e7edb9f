"""Which questions are answered in a round, against what the rule promises of any."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.full_passes import answered_now

QUESTIONS = st.lists(st.tuples(st.floats(0.01, 1.5), st.integers(0, 5)), min_size=1, max_size=12)


def fullness(sizes: list[float]) -> float:
    """Rows read of rows that the passes have room for."""
    return sum(sizes) / max(1, math.ceil(sum(sizes) - 1e-6))


@given(QUESTIONS)
def test_passes_are_never_emptier_for_what_waits(questions: list[tuple[float, int]]) -> None:
    sizes, held = zip(*questions, strict=True)
    now = answered_now(sizes, held)
    assert now
    assert fullness([sizes[place] for place in now]) >= fullness(list(sizes)) - 1e-6


@given(QUESTIONS)
def test_what_waited_longest_is_answered_wherever_it_fits_into_whole_passes(questions: list[tuple[float, int]]) -> None:
    sizes, held = zip(*questions, strict=True)
    oldest = max(held)
    first = max((place for place in range(len(sizes)) if held[place] == oldest), key=lambda place: sizes[place])
    if sizes[first] <= math.floor(sum(sizes)):
        assert first in answered_now(sizes, held)


@pytest.mark.parametrize(
    ("sizes", "held", "now"),
    [
        ((0.5, 0.4), (0, 0), {0, 1}),
        ((0.6, 0.6), (0, 0), {0, 1}),
        ((1.0, 0.2), (0, 0), {0}),
        ((1.0, 0.2), (0, 1), {0, 1}),
        ((0.5, 0.5, 0.1), (0, 0, 0), {0, 1}),
        ((0.5, 0.25, 0.25, 0.25), (0, 0, 0, 3), {0, 1, 3}),
    ],
    ids=[
        "less than a pass",
        "none is fuller",
        "one fills a pass",
        "the older does not",
        "two fill one",
        "oldest first",
    ],
)
def test_small_cases_by_hand(sizes: tuple[float, ...], held: tuple[int, ...], now: set[int]) -> None:
    assert answered_now(sizes, held) == now
