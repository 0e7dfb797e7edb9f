"""Feeding surfaces, each in a process of its own, and keeping what is found."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzzing.case import Outcome
from tests.fuzzing.state import State, load
from tests.fuzzing.surfaces import SHARES
from tests.fuzzing.work import READY, work, write_input

FINDINGS = "findings"
SILENT = 60.0
"""Seconds after which a process that says nothing is ended: one that no signal reaches."""
STARTING = 600.0
Told = tuple[int, Outcome, float]
EVERY = 5.0
"""Seconds between two writings of the state."""


def shares(count: int) -> dict[str, int]:
    """How many of ``count`` inputs each surface gets."""
    whole = sum(SHARES.values())
    return {surface: max(1, round(count * share / whole)) for surface, share in SHARES.items()}


def drive(wanted: dict[str, int], seed: int, folder: Path, jobs: int) -> list[State]:
    """Feed each surface until as many inputs are done as wanted; goes on from the state in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    states = [load(folder, surface, seed) for surface in wanted]
    with ThreadPoolExecutor(jobs) as pool:
        ending = [pool.submit(_drive_one, state, wanted[state.surface], folder) for state in states]
        for each in ending:
            each.result()
    return states


def _drive_one(state: State, wanted: int, folder: Path) -> None:
    saved = time.monotonic()
    while state.done < wanted:
        for number, outcome, seconds in outcomes(state.surface, state.seed, range(state.done, wanted), folder):
            if state.add(number, outcome, seconds):
                state.save(folder)
                keep(folder, state.surface, state.seed, number, outcome)
            if time.monotonic() - saved > EVERY:
                state.save(folder)
                saved = time.monotonic()
        state.save(folder)


def outcomes(surface: str, seed: int, numbers: range, folder: Path) -> Iterator[Told]:
    """Outcomes from one process, each with the seconds of computing it took.

    Inputs that are findings are written to ``folder``. Ends early after an input that the process did not survive.
    Raises RuntimeError if it cannot start.
    """
    context = multiprocessing.get_context("spawn")
    with _scratch() as scratch:
        ours, theirs = context.Pipe(duplex=False)
        what = (theirs, surface, seed, numbers, str(scratch), str(folder / FINDINGS))
        process = context.Process(target=work, args=what, daemon=True)
        process.start()
        theirs.close()
        try:
            if not (ours.poll(STARTING) and ours.recv() == READY):
                raise RuntimeError(f"{surface}: its process does not start")
            yield from _received(ours, process, numbers)
        except EOFError:
            raise RuntimeError(f"{surface}: its process does not start (exit code {process.exitcode})") from None
        finally:
            process.kill()
            process.join()


def _received(ours: Connection, process: BaseProcess, numbers: range) -> Iterator[Told]:
    for number in numbers:
        if not ours.poll(SILENT):
            yield number, Outcome("hang", "no signal reaches it"), SILENT
            return
        try:
            yield ours.recv()
        except EOFError:
            process.join(10)
            yield number, Outcome("died", f"exit code {process.exitcode}"), 0.0
            return


def keep(folder: Path, surface: str, seed: int, number: int, outcome: Outcome) -> None:
    """Tell of a finding beside the files of its input."""
    place = folder / FINDINGS / f"{surface}-{number}"
    place.mkdir(parents=True, exist_ok=True)
    again = f"python -m tests.fuzzing --only {surface} --case {number} --seed {seed}"
    told = f"{outcome.kind}: {outcome.where}\n{again}\n\n{outcome.detail}\n"
    (place / "finding.txt").write_text(told, encoding="utf-8", errors="backslashreplace")
    if not (place / "input").is_dir():
        # The process did not live to write it.
        what = (surface, seed, number, folder / FINDINGS)
        process = multiprocessing.get_context("spawn").Process(target=write_input, args=what)
        process.start()
        process.join()


@contextmanager
def _scratch() -> Iterator[Path]:
    """A folder in memory where there is one: files there are synced at no cost."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix="fuzzing-", dir=memory if memory.is_dir() else None) as name:
        yield Path(name)
