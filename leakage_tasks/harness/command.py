"""The harness' unmodified command, run as a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def run_command(arguments: Sequence[str], log: Path) -> str | None:
    """Run ``lm_eval`` with ``arguments``; all that it prints goes to the file ``log``.

    Returns None if the command succeeded, else the last line that it printed, with its exit code.
    """
    with log.open("w", encoding="utf-8") as output:
        completed = subprocess.run(
            [sys.executable, "-m", "lm_eval", *arguments], stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if not completed.returncode:
        return None
    lines = re.split(r"[\r\n]+", _ESCAPES.sub("", log.read_text(encoding="utf-8", errors="replace")))
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
    return f"lm_eval ended with code {completed.returncode}: {last.removeprefix('leakage: ')}"
