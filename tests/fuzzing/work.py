"""The process that feeds one surface: bounded in memory, and replaced where it does not answer."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import resource
import shutil
import sys
import time
import warnings
from collections import Counter
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzzing.case import BAD, Maker, Outcome, stream_of
from tests.fuzzing.oracle import SECONDS, judged

MEMORY = 2 << 30
"""Bytes that inputs may take beyond what the process took when it was ready."""
READY = "ready"
KEPT = 3
"""Findings of one kind that are told in full; more are counted."""


def work(pipe: Connection, surface: str, seed: int, numbers: range, scratch: str, kept: str) -> None:
    """Judge the inputs ``numbers`` of a surface; sends READY, then each number with its outcome.

    The files of the first findings of a kind go to the folder ``kept``.
    """
    seen: Counter[str] = Counter()
    place = Path(scratch)
    _prepare(place)
    make = import_module(f"tests.fuzzing.surfaces.{surface}").make
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        # What is imported for the first inputs is no part of what these take.
        for warm in range(3):
            _one(make, surface, -seed - 1, warm, place, 600.0)
        _bound_memory()
        pipe.send(READY)
        for number in numbers:
            began = time.process_time()
            outcome = _one(make, surface, seed, number, place)
            seen[outcome.where] += outcome.kind in BAD
            if outcome.kind in BAD and seen[outcome.where] <= KEPT:
                write_input(surface, seed, number, Path(kept))
            pipe.send((number, outcome, time.process_time() - began))
            for shown in (sys.stdout, sys.stderr):
                shown.seek(0)
                shown.truncate()


def _one(make: Maker, surface: str, seed: int, number: int, scratch: Path, seconds: float = SECONDS) -> Outcome:
    """The outcome of one input in a folder of its own."""
    folder = scratch / f"{surface}-{number}"
    folder.mkdir()
    try:
        return judged(make(stream_of(seed, surface, number), folder), folder, seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_input(surface: str, seed: int, number: int, folder: Path) -> None:
    """Write the files of one input to its own folder in ``folder``."""
    place = folder / f"{surface}-{number}" / "input"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    import_module(f"tests.fuzzing.surfaces.{surface}").make(stream_of(seed, surface, number), place)


def _prepare(scratch: Path) -> None:
    """A process that waits for no network, writes where it may, and does not warn."""
    from hypothesis.configuration import set_hypothesis_home_dir

    faulthandler.enable()
    os.environ.update(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", MPLBACKEND="agg", COLUMNS="100")
    set_hypothesis_home_dir(scratch / "hypothesis")
    warnings.simplefilter("ignore")
    # What crashes is told by its exit code.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _bound_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
