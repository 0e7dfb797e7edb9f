"""A bar over the rows of all canaries."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
from torch import distributed as dist

from leakage_tasks.attacks import Finding, run_attack
from leakage_tasks.attacks.coarse import coarsened
from leakage_tasks.canaries import Canary, make_canaries
from leakage_tasks.core.processes import Processes
from leakage_tasks.targets import CausalTarget
from leakage_tasks.tasks import progress as room
from leakage_tasks.tasks.progress import RowsBar, is_first
from tests.conftest import ROOT
from tests.oracles import letters, tiny_gpt2

CANARIES = make_canaries("pin {unique} is {digits:2}", 3, controls=2)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "OFTEN", 0)


def bar_of(canaries: list[Canary] = CANARIES, processes: Any = None, shown: bool = True) -> RowsBar:
    return RowsBar(canaries, 20, "Attacking", processes, shown)


def finding(number: int, **told: Any) -> Finding:
    canary = CANARIES[number]
    return Finding(canary.id, "exposure", canary.planted, canary.repetitions, canary.kind, 6.6, **told)


def test_until_one_is_done_what_is_to_come_is_the_most_there_can_be() -> None:
    bar = bar_of()
    bar.read(0, 4)
    # Three planted once of at most 20 rows, which a model may remember, and two controls.
    assert (bar._bar.n, bar._bar.total) == (4, 3 * 10 + 2 * 20)


def test_then_it_is_foretold_from_the_canaries_of_the_kind() -> None:
    planted = [place for place, each in enumerate(CANARIES) if each.planted]
    bar = bar_of()
    bar.read(planted[0], 6)
    bar.done(planted[0], finding(planted[0], rank=1.0))
    assert bar._bar.total == 3 * 6 + 2 * 20
    assert bar._bar.postfix == "canaries: 1 done (1 memorized), 0 searched, 4 left"


def test_it_ends_at_what_was_read() -> None:
    bar = bar_of()
    for place in range(len(CANARIES)):
        bar.read(place, place + 1)
        bar.done(place, finding(place, place=2))
    assert (bar._bar.n, bar._bar.total) == (15, 15)
    assert bar._bar.disable or bar._bar.postfix == "canaries: 5 done (0 memorized), 0 searched, 0 left"


def test_it_is_of_all_processes() -> None:
    store = dist.HashStore()
    mine, theirs = Processes(store, 0, 2), Processes(store, 1, 2)
    with mine.call(), theirs.call():
        shown, hidden = bar_of(processes=mine), bar_of(processes=theirs, shown=False)
        hidden.read(3, 7)
        hidden.done(3, finding(3, place=1))
        shown.read(0, 2)
        assert shown._bar.n == 9
        assert shown._bar.postfix == "canaries: 1 done (1 memorized), 1 searched, 3 left"


@pytest.mark.parametrize("told", [{"rank": 1.0}, {"place": 1, "correct": (True, True)}])
def test_a_natural_secret_does_not_count_as_memorized_where_its_band_alone_is_shown(told: Any) -> None:
    natural = replace(finding(0, **told), kind="natural")
    assert is_first(natural)
    assert not is_first(coarsened(natural))


def test_an_error_ends_it() -> None:
    bar = bar_of()
    with pytest.raises(ValueError, match="broken"), bar.ended_by_errors():
        raise ValueError("broken")
    assert bar._bar.disable


def test_its_rows_are_those_that_the_attack_says_it_read() -> None:
    rows: dict[int, int] = {}
    target = CausalTarget(tiny_gpt2(letters()), letters())
    canaries = [Canary("a", "the pin is {digits:2}.", ("1", "2")), Canary("b", "a pin is {digits:2}.", ("3", "4"))]

    def read(place: int, number: int) -> None:
        rows[place] = rows.get(place, 0) + number

    found = run_attack("exposure", target, canaries, on_rows=read)
    assert [rows[place] for place in range(2)] == [each.model_calls for each in found]


def test_a_file_gets_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)
    bar = bar_of()
    for _ in range(1000):
        bar.read(0, 1)
    assert said.getvalue().count("\r") < 5


@pytest.mark.slow
def test_it_is_silent_under_tqdm_disable() -> None:
    """In a process of its own, as tqdm reads the environment once."""
    program = "from tests.tasks.test_progress import bar_of; bar_of()._bar.close()"
    environment = {**os.environ, "TQDM_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert "Attacking" not in done.stderr
