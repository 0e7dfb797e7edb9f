"""Comparison of generated and true text, against brute force and other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from leakage_tasks.attacks.suffix.finding import Likeness
from leakage_tasks.attacks.suffix.likeness import SHORTEST, equal_blocks, likeness
from leakage_tasks.metrics.memorization_values import common_run, exact, includes, near_characters, near_tokens, rouge_l

ROWS = st.lists(st.integers(0, 4), min_size=1, max_size=9)
TOKENS = st.lists(st.integers(0, 3), max_size=20)


def letters(rows: Sequence[Sequence[int]]) -> list[str]:
    """One or two characters a token."""
    return ["".join(("a", "b", "cc", "d", "ef")[token] for token in row) for row in rows]


def compared(made: Sequence[int], true: Sequence[int], prefix: Sequence[int] = (0, 1)) -> Likeness:
    return likeness(letters, prefix, made, true)


def edits(one: Sequence[object], other: Sequence[object]) -> int:
    """Edit distance by its definition, as a recursion."""

    @cache
    def distance(left: int, right: int) -> int:
        if not left or not right:
            return left + right
        swap = distance(left - 1, right - 1) + (one[left - 1] != other[right - 1])
        return min(swap, distance(left - 1, right) + 1, distance(left, right - 1) + 1)

    return distance(len(one), len(other))


def runs(row: Sequence[int]) -> set[tuple[int, ...]]:
    return {tuple(row[start:end]) for start in range(len(row)) for end in range(start + 1, len(row) + 1)}


@given(ROWS, ROWS)
def test_distances_and_runs_are_those_of_brute_force(made: list[int], true: list[int]) -> None:
    found = compared(made, true)
    assert found.distance == edits(made, true)
    assert found.characters == edits(*letters([made, true]))
    assert found.run == max((len(run) for run in runs(made) & runs(true)), default=0)
    begun = [length for length in range(len(true) + 1) if not length or tuple(true[:length]) in runs(made)]
    assert found.included == max(begun)
    assert found.types == len(set(true))
    assert exact(found) == float(made == true)


@given(ROWS, ROWS)
def test_rouge_l_is_that_of_google_s_library(made: list[int], true: list[int]) -> None:
    texts = [" ".join(f"w{token}" for token in row) for row in (true, made)]
    expected = RougeScorer(["rougeL"]).score(*texts)["rougeL"].fmeasure
    assert rouge_l(compared(made, true)) == pytest.approx(expected)


def test_near_is_a_tenth_of_the_length_and_not_more() -> None:
    true = [0, 1, 2, 3, 4] * 4
    two, three = [4, *true[1:-1], 0], [4, 4, *true[2:-1], 0]
    assert [near_tokens(compared(made, true)) for made in (true, two, three, true[2:], true[3:])] == [1, 1, 0, 1, 0]
    # Seven characters a period: 28 in all, of which two may differ.
    assert [near_characters(compared(made, true)) for made in (true[1:], true[3:])] == [1, 0]


def test_inclusion_needs_the_beginning_of_the_suffix() -> None:
    found = compared([4, 4, 0, 1, 2, 4], [0, 1, 2, 3, 0])
    assert [includes(length)(found) for length in (2, 3, 4)] == [1, 1, 0]
    assert common_run(found) == pytest.approx(3 / 5)


def test_a_verbatim_text_has_no_distance_if_its_first_space_is_dropped_when_decoded_alone() -> None:
    """Tokenizers of SentencePiece drop the first space of a text."""

    def words(rows: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(f" w{token}" for token in row)[1:] for row in rows]

    same, other = likeness(words, [7, 8], [1, 2, 3], [1, 2, 3]), likeness(words, [7, 8], [1, 2, 4], [1, 2, 3])
    assert (same.characters, same.text_length) == (0, len(" w1 w2 w3"))
    assert other.characters == 1


def test_missing_tokens_are_left_out() -> None:
    found = compared([0, 1, -1, -1], [0, 1, 2, 3])
    assert (found.generated, found.distance, found.run) == (2, 2, 2)


def test_secrets_count_if_they_begin_in_the_generated_text() -> None:
    texts = {1: "mail to ", 2: "jo@exa", 3: "mple.org or call 212-555-0187 ", 4: "x"}

    def decode(rows: Sequence[Sequence[int]]) -> list[str]:
        return ["".join(texts[token] for token in row) for row in rows]

    assert likeness(decode, [1], [2, 3], [4]).secrets == {"email": 1, "phone": 1}
    assert likeness(decode, [1, 2], [3], [4]).secrets == {"phone": 1}


@given(TOKENS, TOKENS)
def test_runs_are_equal_long_enough_maximal_and_in_order(written: list[int], true: list[int]) -> None:
    blocks = equal_blocks(written, true)
    ends = (0, 0)
    for first, second, length in blocks:
        assert length >= SHORTEST
        assert written[first : first + length] == true[second : second + length]
        assert first >= ends[0]
        assert second >= ends[1]
        ends = (first + length, second + length)
    longest = max(
        (
            n
            for a in range(len(written))
            for b in range(len(true))
            for n in range(len(true) - b + 1)
            if n and a + n <= len(written) and written[a : a + n] == true[b : b + n]
        ),
        default=0,
    )
    assert max((length for _, _, length in blocks), default=0) == (longest if longest >= SHORTEST else 0)


def test_a_text_equals_itself_and_placeholders_equal_nothing() -> None:
    assert equal_blocks([5, 6, 7, 8], [5, 6, 7, 8]) == ((0, 0, 4),)
    assert equal_blocks([9, 5, 6, 7, 8], [5, 6, 7, 8]) == ((1, 0, 4),)
    assert equal_blocks([-1, -1, -1], [1, 2, 3]) == ()
