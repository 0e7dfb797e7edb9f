"""The least passes that questions in their order take: never more than the best schedule, found by trying all."""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.together import least_in_order

Left = tuple[tuple[int, ...], ...]


def fewest_passes(asked: Left, at_once: int) -> int:
    """Passes of the best schedule: in each, some rows of every canary's first question that is not answered yet."""

    @cache
    def fewest(left: Left) -> int:
        if not any(left):
            return 0
        takes = product(*(range(rows[0] + 1) if rows else (0,) for rows in left))
        full = [take for take in takes if 0 < sum(take) <= at_once]
        return 1 + min(fewest(tuple(map(_after, left, take))) for take in full)

    return fewest(asked)


def _after(rows: tuple[int, ...], taken: int) -> tuple[int, ...]:
    if not rows or taken == rows[0]:
        return rows[1:]
    return (rows[0] - taken, *rows[1:])


@given(
    st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple), min_size=1, max_size=3).map(tuple),
    st.integers(1, 4),
)
def test_no_schedule_takes_fewer(asked: Left, at_once: int) -> None:
    assert least_in_order(asked, at_once) <= fewest_passes(asked, at_once)


def test_what_one_canary_asks_in_turn_cannot_share_passes() -> None:
    assert least_in_order([[1, 1, 1]], 4) == pytest.approx(3)


def test_small_questions_before_large_ones_leave_passes_part_filled() -> None:
    asked = [[1, 1, 8], [1, 1, 8]]
    assert least_in_order(asked, 4) == pytest.approx(6)
    assert fewest_passes(tuple(map(tuple, asked)), 4) == 6
