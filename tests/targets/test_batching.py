"""How much of which questions is answered in a round, against what the rule promises of any."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.batching import PendingRequest, RequestPart, Splitter, rows_to_serve

IN_PARTS = Splitter(lambda asked, rows: asked[rows], lambda asked, answers: [row for each in answers for row in each])
PASS = 100
"""Rows of a pass."""
QUESTIONS = st.lists(st.tuples(st.integers(1, 3 * PASS), st.integers(0, 500)), min_size=2, max_size=12)


def question(
    rows: int, before: int = 0, in_parts: Splitter | None = IN_PARTS, answer_share: float = 0.0
) -> PendingRequest:
    """It asks for the squares of the first numbers."""
    whole = RequestPart(lambda asked: [[row * row for row in each] for each in asked], range(rows), rows / PASS, rows)
    return PendingRequest("squares", whole, in_parts, before, answer_share=answer_share)


def answer(asked: PendingRequest, rows: int) -> None:
    part = asked.part(rows)
    assert part.size == pytest.approx(part.rows / PASS)
    (part.answer,) = part.many([part.request])
    asked.note(part)


@given(QUESTIONS)
def test_passes_are_full_where_there_is_enough_for_one(questions: Sequence[tuple[int, int]]) -> None:
    total = sum(rows for rows, _ in questions)
    now = rows_to_serve([question(*each) for each in questions])
    assert sum(now) == (total if total < PASS else total // PASS * PASS)
    assert all(0 <= chosen <= rows for chosen, (rows, _) in zip(now, questions, strict=True))


@given(QUESTIONS)
def test_who_had_fewest_rows_read_comes_first_and_one_alone_is_answered_in_part(
    questions: Sequence[tuple[int, int]],
) -> None:
    now = rows_to_serve([question(*each) for each in questions])
    whole = [before for (rows, before), chosen in zip(questions, now, strict=True) if chosen == rows]
    none = [before for (_, before), chosen in zip(questions, now, strict=True) if not chosen]
    assert len(whole) + len(none) >= len(questions) - 1
    assert max(whole, default=0) <= min(none, default=math.inf)


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
        ((250, 130), (0, 0), [250, 50]),
    ],
    ids=[
        "less than a pass",
        "the rest of one waits",
        "who had more rows read",
        "one alone",
        "a small one first",
        "a small one waits",
        "several fill one",
        "several passes",
    ],
)
def test_small_cases_by_hand(rows: Sequence[int], before: Sequence[int], now: list[int]) -> None:
    assert rows_to_serve([question(*each) for each in zip(rows, before, strict=True)]) == now


@given(QUESTIONS, st.floats(0, 5))
def test_no_more_is_answered_than_memory_holds_and_a_pass_at_the_least(
    questions: Sequence[tuple[int, int]], a_pass: float
) -> None:
    """Where the answers to the rows of a pass take ``a_pass`` of the memory."""
    asked = [question(rows, before, answer_share=a_pass * rows / PASS) for rows, before in questions]
    total, now = sum(rows for rows, _ in questions), sum(rows_to_serve(asked))
    if a_pass * total / PASS <= 1:
        assert now == sum(rows_to_serve([question(*each) for each in questions]))
    elif total >= PASS:
        assert now % PASS == 0
        assert now == PASS or a_pass * now / PASS <= 1 + 1e-4


def test_where_memory_does_not_hold_all_answers_who_is_furthest_comes_first() -> None:
    asked = [question(90, before, answer_share=0.6) for before in (10, 30, 20)]
    assert rows_to_serve(asked) == [0, 90, 10]


def test_what_was_answered_in_part_comes_first() -> None:
    first, second = question(90, before=20), question(90, before=10)
    answer(first, 20)
    assert rows_to_serve([first, second]) == [70, 30]


def test_what_cannot_be_answered_in_parts_is_answered_whole_and_with_it_all_others() -> None:
    assert rows_to_serve([question(100), question(20, in_parts=None)]) == [100, 20]


def test_an_error_of_a_part_is_that_of_the_question() -> None:
    asked = question(30)
    answer(asked, 10)
    part = asked.part(10)
    part.error = ValueError("no room")
    asked.note(part)
    assert asked.answered
    with pytest.raises(ValueError, match="no room"):
        asked.answer()
