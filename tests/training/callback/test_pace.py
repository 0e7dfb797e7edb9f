"""What watching may take of the time, whatever it and training take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.training.callback.pace import Pace

SECONDS = st.floats(0.01, 10.0)


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def measured(pace: Pace, clock: Clock, seconds: float) -> float:
    with pace.timed():
        clock.now += seconds
    return seconds


@given(st.lists(SECONDS, min_size=1, max_size=40), SECONDS, st.floats(0.01, 1.0))
def test_with_looks_of_one_cost_no_run_spends_more_than_its_share_or_the_first_and_last_look(steps, cost, share):
    clock = Clock()
    pace = Pace(share, clock)
    spent = measured(pace, clock, cost)
    for step in steps:
        clock.now += step
        if pace.affords():
            spent += measured(pace, clock, cost)
    spent += measured(pace, clock, cost)
    assert spent <= max(share * sum(steps), 2 * cost) * (1 + 1e-9)


def test_a_point_is_taken_as_soon_as_it_and_the_last_are_within_the_share():
    clock = Clock()
    pace = Pace(0.1, clock)
    measured(pace, clock, 2.0)
    clock.now += 59.9
    assert not pace.affords()
    clock.now += 0.2
    assert pace.affords()


def test_a_look_that_failed_is_paid_for_too():
    clock = Clock()
    pace = Pace(0.5, clock)

    def fail() -> None:
        with pace.timed():
            clock.now += 4.0
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fail()
    assert pace.latest == 4.0
    clock.now += 23.0
    assert not pace.affords()


def test_without_a_share_and_before_the_first_look_everything_is_affordable():
    clock = Clock()
    assert Pace(1e-9, clock).affords()
    pace = Pace(None, clock)
    measured(pace, clock, 1e6)
    assert pace.affords()
