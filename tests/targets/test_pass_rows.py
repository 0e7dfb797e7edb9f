"""Rows of a pass, by what passes took."""

import pytest

from leakage_tasks.targets.pass_rows import FEWEST, TIMED_PASSES, PassSize


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
