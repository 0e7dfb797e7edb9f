"""Half-written files when a signal ends the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leakage_tasks.core.signal_cleanup import cleanup_on_signals

PREAMBLE = """
import contextlib, os, shutil, signal, sys
from pathlib import Path
# The tests may run where a signal is ignored, as nohup does, and a child inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from leakage_tasks.core import atomic, signal_cleanup
place, number = Path(sys.argv[1]), int(sys.argv[2])
"""
AS_IT_IS_MADE = """
usual = os.mkdir
def mkdir(*arguments, **rest):
    usual(*arguments, **rest)
    os.kill(os.getpid(), number)
os.mkdir = mkdir
with atomic.replacing(place / "file") as beside:
    beside.write_text("half")
"""
AS_THE_NEXT_IS_ENTERED = """
class Stack(contextlib.ExitStack):
    def enter_context(self, cm):
        entered = type(cm).__enter__(cm)
        Path(entered).write_text("half")
        if len(list(place.iterdir())) == 2:
            os.kill(os.getpid(), number)
        return super().enter_context(contextlib.nullcontext(entered))
with atomic.replacing(place / "one") as one, Stack() as stack:
    stack.enter_context(atomic.replacing(place / "other"))
"""
TWICE = """
usual = shutil.rmtree
def rmtree(*arguments, **rest):
    os.kill(os.getpid(), number)
    usual(*arguments, **rest)
shutil.rmtree = rmtree
with atomic.replacing(place / "file") as beside:
    beside.write_text("half")
    os.kill(os.getpid(), number)
"""

IN_A_TEMPORARY_FOLDER = """
import tempfile
tempfile.tempdir = str(place)
with signal_cleanup.temporary_folder() as folder:
    (folder / "file").write_text("x")
    os.kill(os.getpid(), number)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", [AS_IT_IS_MADE, AS_THE_NEXT_IS_ENTERED, TWICE, IN_A_TEMPORARY_FOLDER])
def test_at_no_moment_is_anything_left(tmp_path: Path, moment: str, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PREAMBLE + moment, str(tmp_path), str(int(number))]
    done = subprocess.run(command, stderr=subprocess.DEVNULL, timeout=60)
    assert done.returncode == -number
    assert not list(tmp_path.iterdir())


def test_ctrl_c_is_met_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGINT)
    with cleanup_on_signals():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_a_handler_of_the_programs_own_stays(tmp_path: Path) -> None:
    met: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: met.append(number))
    try:
        with cleanup_on_signals():
            os.kill(os.getpid(), signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert met == [signal.SIGTERM]
