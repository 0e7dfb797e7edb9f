"""The rows of each request that a scheduling step serves, compared with the promises of the rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.batching import Capacity, Outcome, PendingRequest, rows_to_serve

PASS = 100
"""Rows of a pass."""
QUESTIONS = st.lists(st.tuples(st.integers(1, 3 * PASS), st.integers(0, 500)), min_size=2, max_size=12)


@dataclass(frozen=True)
class Squares:
    """A request for the squares of some numbers."""

    numbers: Sequence[int]

    def part(self, rows: slice) -> Squares:
        return Squares(self.numbers[rows])

    def join(self, answers: Sequence[list[int]]) -> list[int]:
        return [square for part in answers for square in part]


def squares(requests: Sequence[Squares]) -> list[list[int]]:
    return [[number * number for number in request.numbers] for request in requests]


def question(rows: int, before: int = 0, splits: bool = True, row_bytes: int = 0) -> PendingRequest:
    """It asks for the squares of the first numbers."""
    capacity = Capacity(PASS, row_bytes, memory=1000)
    return PendingRequest("squares", squares, Squares(range(rows)), rows, capacity, splits, before)


def answer(asked: PendingRequest, rows: int) -> None:
    part = asked.serve(rows).request
    assert len(part.numbers) == rows
    asked.note(Outcome(*asked.many([part])))


@given(QUESTIONS)
def test_one_pass_is_full_if_there_are_rows_for_one(questions: Sequence[tuple[int, int]]) -> None:
    total = sum(rows for rows, _ in questions)
    now = rows_to_serve([question(*each) for each in questions])
    assert sum(now) == min(total, PASS)
    assert all(0 <= chosen <= rows for chosen, (rows, _) in zip(now, questions, strict=True))


@given(QUESTIONS)
def test_attacks_that_started_first_are_served_first_while_two_passes_wait(
    questions: Sequence[tuple[int, int]],
) -> None:
    left, expected = PASS, []
    for rows, _ in questions:
        expected.append(min(left, rows))
        left -= expected[-1]
    now = rows_to_serve([question(*each) for each in questions])
    assert now == expected or sum(rows for rows, _ in questions) < 2 * PASS


@given(QUESTIONS)
def test_attacks_with_the_fewest_rows_read_are_served_first_when_less_than_two_passes_wait(
    questions: Sequence[tuple[int, int]],
) -> None:
    now = rows_to_serve([question(*each) for each in questions])
    whole = [before for (rows, before), chosen in zip(questions, now, strict=True) if chosen == rows]
    none = [before for (_, before), chosen in zip(questions, now, strict=True) if not chosen]
    assert len(whole) + len(none) >= len(questions) - 1
    assert max(whole, default=0) <= min(none, default=math.inf) or sum(rows for rows, _ in questions) >= 2 * PASS


@given(st.integers(1, 300), st.lists(st.integers(1, 100)))
def test_the_answers_to_parts_are_that_to_the_whole(rows: int, parts: Sequence[int]) -> None:
    asked = question(rows)
    for part in parts:
        if not asked.answered:
            answer(asked, min(part, asked.rows))
    if not asked.answered:
        answer(asked, asked.rows)
    assert asked.answered
    assert asked.answer() == [row * row for row in range(rows)]


@pytest.mark.parametrize(
    ("rows", "before", "now"),
    [
        ((50, 40), (0, 0), [50, 40]),
        ((60, 60), (0, 0), [60, 40]),
        ((60, 60), (9, 0), [40, 60]),
        ((250,), (0,), [250]),
        ((100, 20), (50, 20), [80, 20]),
        ((100, 20), (50, 60), [100, 0]),
        ((50, 50, 10), (30, 20, 10), [40, 50, 10]),
        ((150, 100), (90, 0), [100, 0]),
        ((30, 250, 130), (0, 0, 0), [30, 70, 0]),
    ],
    ids=[
        "less than a pass",
        "the rest of one waits",
        "who had more rows read",
        "one alone",
        "a small one first",
        "a small one waits",
        "several fill one",
        "the first of several passes",
        "who started first",
    ],
)
def test_small_cases_by_hand(rows: Sequence[int], before: Sequence[int], now: list[int]) -> None:
    assert rows_to_serve([question(*each) for each in zip(rows, before, strict=True)]) == now


def test_what_was_answered_in_part_comes_first() -> None:
    first, second = question(90, before=20), question(90, before=10)
    answer(first, 20)
    assert rows_to_serve([first, second]) == [70, 30]


@pytest.mark.parametrize(
    ("rows", "now"),
    [
        ((200, 20), [200, 0]),
        ((90, 90, 90, 90), [90, 90, 90, 90]),
        ((96, 90), [96, 90]),
        ((150, 147, 10), [150, 147, 0]),
        ((120, 120, 57, 60), [120, 120, 57, 0]),
    ],
    ids=["full passes", "all, if none are full", "less than two passes", "nearly full passes", "three passes"],
)
def test_requests_that_cannot_be_split_are_served_whole_until_their_passes_are_full(
    rows: Sequence[int], now: list[int]
) -> None:
    assert rows_to_serve([question(each, splits=False) for each in rows]) == now


def test_requests_that_hold_caches_and_cannot_be_split_are_served_together() -> None:
    assert rows_to_serve([question(each, splits=False, row_bytes=100) for each in (100, 20)]) == [100, 20]


def test_an_error_of_a_part_is_that_of_the_question() -> None:
    asked = question(30)
    answer(asked, 10)
    asked.serve(10)
    asked.note(Outcome(None, ValueError("no room")))
    assert asked.answered
    with pytest.raises(ValueError, match="no room"):
        asked.answer()
