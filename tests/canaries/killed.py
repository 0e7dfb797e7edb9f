"""Commands on shards that are ended by KILL, once so many of their results are kept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

COMMAND = "from leakage_tasks.cli import main; main()"


def killed(
    state: str, folder: Path, after: int, *arguments: object, program: str = COMMAND, alone: bool = False
) -> int:
    """Run ``leakage`` until ``after`` results are kept in folders like ``state``, and kill it; how many there are.

    Its processes end with it, as where a machine goes down; ``alone``, it leaves them to themselves, as where
    memory is short. On a busy machine it may end before it is killed; it begins anew then.
    """
    words = [sys.executable, "-c", program, *map(str, arguments)]
    for _ in range(8):
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True) as running:
            while running.poll() is None and results(state, folder) < after:
                time.sleep(0.0005)
            if running.poll() is None:
                (os.kill if alone else os.killpg)(running.pid, signal.SIGKILL)
        if running.returncode == -signal.SIGKILL:
            return results(state, folder)
    raise AssertionError(f"it ended {running.returncode} each time before it could be killed")


def results(state: str, folder: Path) -> int:
    """How many results are kept."""
    return sum(not any(part.startswith(".") for part in path.parts) for path in folder.glob(f"{state}/*.json"))
