"""A progress bar over canaries."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed as dist

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.attacks.run import Hooks
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.processes import Processes
from leakage_tasks.targets import CausalTarget
from leakage_tasks.tasks import progress as room
from leakage_tasks.tasks.progress import CanariesBar, is_first, may_be_first, seconds_left
from tests.conftest import ROOT
from tests.oracles import letters, tiny_gpt2

CANARIES = make_canaries("pin {unique} is {digits:2}", 3, controls=2)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "OFTEN", 0)


class Clock:
    """Time that passes only when it is set."""

    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def bar_of(canaries: list[Canary] = CANARIES, processes: Any = None, shown: bool = True) -> CanariesBar:
    return CanariesBar(canaries, "Attacking", processes, shown, Clock())


def after(bar: CanariesBar, seconds: float, *canaries: int, rows: int = 10) -> str:
    """The words of the bar when these canaries were read and done ``seconds`` after its start."""
    bar._clock.now = 50.0 + seconds  # type: ignore[attr-defined]
    for index in canaries:
        bar.read(index, rows)
        bar.done(index, finding(index, rank=2.0))
    return bar.words(seconds)


def finding(number: int, **told: Any) -> Finding:
    canary = CANARIES[number]
    return Finding(canary.id, "exposure", canary.planted, canary.repetitions, canary.kind, 6.6, **told)


PLANTED, CONTROLS = [n for n in range(5) if CANARIES[n].planted], [n for n in range(5) if not CANARIES[n].planted]


def test_canaries_are_counted_and_no_time_is_shown_before_one_is_done() -> None:
    bar = bar_of()
    bar._clock.now += 2.0  # type: ignore[attr-defined]
    bar.read(0, 40)
    assert (bar._bar.n, bar._bar.total) == (0, 5)
    assert bar._bar.postfix == "20 rows/s, 0 memorized, 1 in progress"


def test_the_rows_of_natural_secrets_are_not_shown() -> None:
    bar = CanariesBar([Canary("n", "pin {digits:2}", tuple("12"), kind="natural")], "t", shown=False)
    bar.read(0, 40)
    assert bar.words(2.0) == "0 memorized, 1 in progress"


def test_no_time_is_shown_before_a_canary_of_each_remaining_kind_is_done() -> None:
    bar = bar_of()
    assert "left" not in after(bar, 3, *PLANTED)
    assert "left" in after(bar, 6, CONTROLS[0])


def test_the_time_left_is_that_of_the_remaining_canaries_at_the_rows_of_their_kind() -> None:
    bar = bar_of()
    after(bar, 0, PLANTED[0], rows=10)
    # 2 planted canaries of 10 rows and a control of 80 are left, after 90 rows in 9 seconds.
    assert after(bar, 9, CONTROLS[0], rows=80) == "about 00:10 left, 10 rows/s, 0 memorized, 0 in progress"
    bar.read(CONTROLS[1], 30)
    # 120 rows in 12 seconds, and 70 rows are left.
    assert bar.words(12).startswith("about 00:07 left, 10 rows/s")


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 50), st.integers(1, 50), st.floats(0.1, 100))
def test_equal_canaries_take_time_in_proportion_to_their_number(
    done: int, left: int, rows: int, other: int, elapsed: float
) -> None:
    numbers = Counter({"planted": done + left, "control": 1})
    read = Counter({"planted rows": done * rows, "control rows": other})
    counts = Counter({"planted done": done, "planted done rows": done * rows, "control done": 1}) + read
    counts["control done rows"] = other
    expected = elapsed * left * rows / (done * rows + other)
    assert seconds_left(numbers, counts, elapsed) == pytest.approx(expected)


def test_no_time_is_shown_if_canaries_in_progress_take_more_rows_than_those_done() -> None:
    counts = Counter({"control done": 1, "control done rows": 10, "control rows": 20})
    assert seconds_left(Counter({"control": 2}), counts, 5.0) == pytest.approx(0.25)
    counts["control rows"] = 21
    assert seconds_left(Counter({"control": 2}), counts, 5.0) is None


def test_without_rows_each_canary_takes_the_same_time() -> None:
    bar = bar_of()
    bar._clock.now += 4.0  # type: ignore[attr-defined]
    for index in (PLANTED[0], CONTROLS[0]):
        bar.done(index, finding(index, rank=1.0))
    assert bar.words(4.0) == "about 00:06 left, 2 memorized, 0 in progress"


def test_canaries_that_may_be_memorized_are_undecided() -> None:
    bar = bar_of()
    for index, least in ((0, 1.0), (1, 2.0)):
        bar.done(index, finding(index, rank=50.0, rank_low=least, rank_high=50.0, method="lower_bound"))
    bar.done(2, finding(2, rank=1.0, rank_low=1.0, rank_high=1.0))
    assert bar.words(4.0).endswith("1 memorized, 1 undecided, 0 in progress")


def test_it_ends_at_the_number_of_canaries() -> None:
    bar = bar_of()
    for place in range(len(CANARIES)):
        bar.read(place, place + 1)
        bar.done(place, finding(place, place=2))
    assert (bar._bar.n, bar._bar.total, bar._bar.disable) == (5, 5, True)


def test_it_is_of_all_processes() -> None:
    store = dist.HashStore()
    mine, theirs = Processes(store, 0, 2), Processes(store, 1, 2)
    with mine.call(), theirs.call():
        shown, hidden = bar_of(processes=mine), bar_of(processes=theirs, shown=False)
        hidden.read(3, 7)
        hidden.done(3, finding(3, place=1))
        shown._clock.now += 3.0  # type: ignore[attr-defined]
        shown.read(0, 2)
        assert shown._bar.n == 1
        assert shown._bar.postfix == "3 rows/s, 1 memorized, 1 in progress"


@pytest.mark.parametrize("told", [{"rank": 1.0}, {"place": 1, "correct": (True, True)}])
def test_a_natural_secret_does_not_count_as_memorized_where_its_band_alone_is_shown(told: Any) -> None:
    natural = replace(finding(0, **told), kind="natural")
    assert is_first(natural)
    assert not is_first(coarsened(natural))
    assert may_be_first(coarsened(natural))


def test_an_error_ends_it() -> None:
    bar = bar_of()
    with pytest.raises(ValueError, match="broken"), bar.closing():
        raise ValueError("broken")
    assert bar._bar.disable


def test_its_rows_are_those_that_the_attack_says_it_read() -> None:
    rows: dict[int, int] = {}
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = [Canary("a", "the pin is {digits:2}.", ("1", "2")), Canary("b", "a pin is {digits:2}.", ("3", "4"))]

    def read(place: int, number: int) -> None:
        rows[place] = rows.get(place, 0) + number

    found = run_attack("exposure", target, canaries, hooks=Hooks(on_rows=read))
    # Both digits of the secret are read in one row.
    assert [rows[place] for place in range(2)] == [(each.model_calls or 0) - 1 for each in found]


def test_a_file_gets_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    bar = bar_of()
    for _ in range(1000):
        bar.read(0, 1)
    assert said.getvalue().count("\r") < 5


PROGRAM = """
from leakage_tasks.canaries import make_canaries
from leakage_tasks.tasks.progress import CanariesBar

CanariesBar(make_canaries("pin {unique} is {digits:2}", 3), "Attacking")._bar.close()
"""


@pytest.mark.parametrize("disable", ["1", ""])
def test_it_is_silent_under_tqdm_disable(disable: str) -> None:
    """In a process of its own, as tqdm reads the environment once."""
    environment = {**os.environ, "TQDM_DISABLE": disable}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert ("Attacking" in done.stderr) is (not disable)
