"""The fuzzer itself, and a few hundred of its inputs."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from leakage_tasks.core.errors import OptionError
from tests.fuzzing.case import GOOD, Call, Outcome, stream_of
from tests.fuzzing.driving import FINDINGS, drive
from tests.fuzzing.oracle import judged
from tests.fuzzing.state import State, load
from tests.fuzzing.surfaces import SHARES, cards, manifests, results, sidecars, templates
from tests.fuzzing.table import findings, table
from tests.fuzzing.work import READY, work

FEW = 25


def outcome(tmp_path: Path, run: Any, seconds: float = 10.0, **more: Any) -> Outcome:
    """What is found of a call in a folder with one file."""
    (tmp_path / "in").write_text("held")
    return judged(Call(run, **more), tmp_path, seconds)


def test_success_and_an_error_of_ours_are_good(tmp_path: Path) -> None:
    def refuse() -> None:
        raise OptionError("--x is 1: give 2")

    assert outcome(tmp_path, lambda: None).kind == "success"
    assert outcome(tmp_path, refuse).kind == "declined"


def test_another_error_is_a_traceback(tmp_path: Path) -> None:
    found = outcome(tmp_path, lambda: [][1])
    assert (found.kind, found.where) == ("traceback", "IndexError at ?")
    assert "IndexError: list index out of range" in found.detail


def test_computing_for_too_long_is_a_hang(tmp_path: Path) -> None:
    def spin() -> None:
        while True:
            pass

    assert outcome(tmp_path, spin, seconds=0.2).kind == "hang"


def test_what_is_left_after_an_error_is_a_leftover(tmp_path: Path) -> None:
    def half() -> None:
        Path("out").write_text("half")
        raise OptionError("no")

    assert outcome(tmp_path, half, outputs=("out",)).kind == "leftover"


def test_an_output_is_no_leftover_and_a_temporary_folder_is(tmp_path: Path) -> None:
    assert outcome(tmp_path, lambda: Path("out").write_text("all") and None, outputs=("out",)).kind == "success"
    assert outcome(tmp_path, lambda: Path(".leakage-1").mkdir(), outputs=("out",)).kind == "leftover"


def test_a_changed_input_is_found(tmp_path: Path) -> None:
    assert outcome(tmp_path, lambda: Path("in").write_text("other") and None).kind == "changed"


@pytest.mark.parametrize("said", ["a\x1b[2J", "x" * 3_000, "", "my secret"])
def test_errors_that_no_terminal_should_show(tmp_path: Path, said: str) -> None:
    class Odd(OptionError):
        def __str__(self) -> str:
            return said

    def refuse() -> None:
        raise Odd

    assert outcome(tmp_path, refuse, secrets=("secret",)).kind == "message"


@pytest.mark.parametrize("surface", [manifests, templates, cards, results, sidecars])
def test_an_input_depends_on_seed_surface_and_number_alone(tmp_path: Path, surface: Any) -> None:
    name = surface.__name__.rpartition(".")[2]
    files = []
    for place in ("a", "b"):
        (tmp_path / place / "in").mkdir(parents=True)
        for number in (3, 7) if place == "a" else (7,):
            folder = tmp_path / place / f"in{number}"
            folder.mkdir()
            surface.make(stream_of(5, name, number), folder)
        held = sorted((tmp_path / place / "in7").rglob("*"))
        files.append({path.name: path.read_bytes() for path in held if path.is_file()})
    assert files[0] == files[1]


def test_a_state_is_gone_on_from_and_is_of_one_seed(tmp_path: Path) -> None:
    state = State("manifests", 3)
    assert not state.add(0, Outcome("success"), 0.5)
    assert state.add(1, Outcome("traceback", "here"), 0.5)
    state.save(tmp_path)
    again = load(tmp_path, "manifests", 3)
    assert (again.done, again.findings, again.seconds) == (2, 1, 1.0)
    assert again.found == {"traceback: here": {"times": 1, "cases": [1]}}
    with pytest.raises(ValueError, match="of seed 3, not 4"):
        load(tmp_path, "manifests", 4)


def test_only_the_first_findings_of_a_kind_are_kept() -> None:
    state = State("manifests", 0)
    kept = [state.add(number, Outcome("traceback", "here"), 0.0) for number in range(5)]
    assert kept == [True, True, True, False, False]
    assert table([state]).splitlines()[1].split()[:5] == ["manifests", "5", "0", "0", "5"]


def feed_all(pipe: Connection, scratch: str) -> None:
    """A few inputs to every surface in one process, as what they import takes longer than they do."""
    for surface in SHARES:
        work(pipe, surface, 1, range(FEW), scratch, f"{scratch}/{FINDINGS}")


@pytest.mark.slow
def test_a_few_hundred_inputs_fail_nowhere(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=feed_all, args=(theirs, str(tmp_path)), daemon=True)
    process.start()
    theirs.close()
    states = [State(surface, 1) for surface in SHARES]
    for state in states:
        assert ours.recv() == READY
        for _ in range(FEW):
            state.add(*ours.recv())
    process.join()
    assert not any(state.findings for state in states), findings(states, tmp_path)
    assert all(sum(state.counts[kind] for kind in GOOD) for state in states)


@pytest.mark.slow
def test_a_surface_is_driven_in_a_process_of_its_own_and_gone_on_with(tmp_path: Path) -> None:
    for wanted in (3, 5):
        [state] = drive({"templates": wanted}, 1, tmp_path, jobs=1)
    assert (state.done, state.findings, sum(state.counts.values())) == (5, 0, 5)
