"""Rows of a pass, by what passes took and by each limit."""

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.targets.memory import COPIES, LOGIT_BYTES, SHARE, MemoryBudget, memory_within
from leakage_tasks.targets.pass_rows import FEWEST, TIMED_PASSES, TOKENS_ON_CPU, PassRows, PassSize, RowLimit


def run(seconds_for):
    pace = PassSize()
    for _ in range(40 * TIMED_PASSES):
        pace.note(pace.rows, seconds_for(pace.rows))
    return pace.rows


@pytest.mark.parametrize("best", [1, 2, 8])
def test_rows_grow_while_a_pass_takes_no_longer_for_more(best):
    assert run(lambda rows: max(1.0, rows / (best * FEWEST))) == best * FEWEST


def test_rows_stay_where_each_row_costs_the_same():
    assert run(lambda rows: rows * 1e-3) == FEWEST


def test_passes_that_are_not_full_say_nothing():
    pace = PassSize()
    for _ in range(10 * TIMED_PASSES):
        pace.note(pace.rows - 1, 0.0)
    assert pace.rows == FEWEST


def test_one_slow_pass_among_quick_ones_settles_nothing():
    pace = PassSize()
    pace.note(FEWEST, 1.0)
    pace.note(FEWEST, 1.0)
    pace.note(2 * FEWEST, 50.0)
    pace.note(2 * FEWEST, 1.0)
    assert pace.rows == 4 * FEWEST


def test_fixed_rows_stay():
    pace = PassSize(fixed=8)
    for _ in range(10 * TIMED_PASSES):
        pace.note(8, 1e-9)
    assert pace.rows == 8


STATES = SimpleNamespace(row_bytes=64, copied_bytes=8.0)
"""Bytes of a token's state, and of the copy of one before it."""
VOCABULARY, FIRST, MORE = 50, 30, 5
"""Tokens with a logit; bytes of a token's activations, and more of them for each token before it."""


def passes(batch_size=None, max_length=100, tuned=256, most=1 << 16):
    """The limits of a model on a CPU."""
    cpu = torch.device("cpu")
    sizes = batch_size, max_length, VOCABULARY, (FIRST, FIRST + MORE), MemoryBudget(cpu), PassSize(fixed=tuned)
    return PassRows(cpu, *sizes, RowLimit(most), RowLimit(most))


ROOM = st.integers(1_000, 10**7)
"""Bytes that a run may take."""


@given(st.integers(1, 200), st.integers(1, 200), ROOM, st.integers(1, 3000), st.integers(1, 3000))
def test_the_lowest_of_all_limits_counts(length, read, room, tuned, most):
    read = min(length, read)
    row = read * (64 + FIRST + length * MORE) + (length - read) * 8 + LOGIT_BYTES * VOCABULARY
    with memory_within(room):
        rows, memory = passes(tuned=tuned, most=most).of(STATES, length, read), int((1 - COPIES) * int(SHARE * room))
    # The tokens of one text of full length always fit.
    fitting = max(count for count in range(3001) if count * row <= memory or count * length <= 100)
    assert rows == max(1, min(fitting, tuned, most))


@given(st.integers(1, 200), ROOM)
def test_whole_texts_need_room_for_their_logits_and_suit_the_caches_of_a_cpu(length, room):
    logits = LOGIT_BYTES * VOCABULARY * length
    with memory_within(room):
        limits = passes()
        assert limits.with_logits(length) == max(1, int(SHARE * room) // logits)
        rows = limits.of_whole_texts(STATES, length, length)
        assert rows == max(
            1, min(limits.of(STATES, length, length), TOKENS_ON_CPU // length, int(SHARE * room) // logits)
        )


@pytest.mark.parametrize(("length", "rows"), [(100, 8), (50, 16), (200, 4), (1000, 1)])
def test_a_batch_size_counts_texts_of_full_length(length, rows):
    assert passes(batch_size=8, tuned=2).of(STATES, length) == rows


def test_tokens_that_are_not_copied_take_no_memory():
    with memory_within(10**6):
        limits = passes(max_length=1, tuned=10_000)
        row = 64 + FIRST + 100 * MORE + LOGIT_BYTES * VOCABULARY
        assert limits.of(STATES, 100, copied=0) == int((1 - COPIES) * int(SHARE * 10**6)) // row
        assert limits.of(STATES, 100) == int((1 - COPIES) * int(SHARE * 10**6)) // (row + 99 * 8)
