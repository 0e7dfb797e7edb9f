"""The simulated clock of the overlap, against sums by hand."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from benchmarks import overlap
from benchmarks.overlap import HEAD, Clock, run


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that spends no processor time of its own."""
    monkeypatch.setattr(overlap.time, "process_time", lambda: 0.0)


def test_a_device_computes_one_pass_after_the_other(idle: Any) -> None:
    clock = Clock(launch=2.0, a_row=0.5)
    clock.launch(10, 0.0)  # launched from 0 to 2, computed from 0 to 5
    assert (clock.now, clock.device_free) == (2, 5)
    clock.launch(10, 0.0)  # launched until 4, computed from 5 to 10
    assert (clock.now, clock.device_free) == (4, 10)
    clock.wait(5.0)
    clock.wait(3.0)
    assert (clock.now, clock.waited) == (5, 1)
    clock.wait(clock.device_free)
    clock.launch(1, 0.0)  # a pass that is computed before its launch ends
    assert (clock.now, clock.device_free, clock.rows, clock.passes) == (12, 12, 21, 3)


def test_the_time_of_the_model_itself_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0, *[7.0] * 9])
    monkeypatch.setattr(overlap.time, "process_time", lambda: next(seconds))
    clock = Clock(launch=2.0, a_row=0.0)
    clock.launch(1, 6.5)
    assert clock.now == pytest.approx(0.5 + 2)


def test_both_ways_read_the_same_rows_and_overlapping_waits_less() -> None:
    options = argparse.Namespace(budget=200, rows=64, launch=1.0, full=2000.0)
    in_turn, overlapped = (run("canary_exposure", 12, overlaps, options) for overlaps in (False, True))
    assert in_turn.rows == overlapped.rows
    assert overlapped.passes == pytest.approx(in_turn.passes, abs=2)  # Other requests wait when a pass is filled.
    assert 0 < overlapped.waited < in_turn.waited
    assert HEAD.splitlines()[0].count("|") == HEAD.splitlines()[1].count("|")
