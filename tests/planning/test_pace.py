"""Pace from timed passes: exact where they obey it, and passes by the one formula."""

from __future__ import annotations

import pytest

from leakage_tasks.planning.estimate import SLACK, passes_of_run
from leakage_tasks.planning.pace import Pace, Timed, fitted
from leakage_tasks.planning.pilot import check_number


def test_seconds_that_obey_a_pace_give_it_back() -> None:
    true = Pace(0.02, 3e-4, 64)
    timed = [Timed(passes, tokens, true.seconds(passes, tokens)) for passes, tokens in ((1, 1), (1, 16), (2, 128))]
    assert fitted(timed) == pytest.approx((0.02, 3e-4))


def test_no_part_of_a_pace_is_negative() -> None:
    assert min(fitted([Timed(1, 1, 1.0), Timed(1, 100, 0.9), Timed(1, 400, 0.8)])) >= 0


def test_passes_of_merged_searches_and_of_others() -> None:
    assert passes_of_run(1000, [30, 20], 100, merged=False) == 50
    assert passes_of_run(1000, [30, 20], 100, merged=True) == pytest.approx(30 * SLACK)
    assert passes_of_run(100_000, [30, 20], 100, merged=True) == pytest.approx(1000 * SLACK)
    assert passes_of_run(0, [], 100, merged=True) == 0


@pytest.mark.parametrize("number", [0, 3, 40])
def test_pilots_that_say_something(number: int) -> None:
    check_number(number)
