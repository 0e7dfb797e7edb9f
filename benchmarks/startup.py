"""Overhead of an installed but unused package. Prints JSON.

``interpreter`` is the time in milliseconds that the startup file adds to the start of Python, with and without the
switch LM_EVAL_LEAKAGE_AUTOLOAD=0. Python reads a venv's site-packages twice at its start, so this script does, too.
``help`` is the time that the plugin adds to ``lm_eval --help``, in whole processes. Times are minima over the runs; the
two sides alternate.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import ROOT

READ = "import site, sys, time\nfor _ in 'ab': site.addsitedir({folder!r}, set())"
LINES = READ.splitlines()
TIMED = "\n".join([LINES[0], "start = time.perf_counter()", LINES[1], "print(time.perf_counter() - start)"])
HELP = READ + "\nsys.argv = ['lm_eval', '--help']\nfrom lm_eval.__main__ import cli_evaluate\ncli_evaluate()"


def run(code: str, *options: str, switch: str = "1") -> tuple[float, str]:
    """Run ``code`` in a new Python; return the seconds and the standard output."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "LM_EVAL_LEAKAGE_AUTOLOAD": switch}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *options, "-c", code], env=environment, capture_output=True, check=True)
    return time.perf_counter() - start, done.stdout.decode()


def reading(folder: Path, switch: str = "1") -> float:
    """Return the seconds a bare Python takes to read the .pth files in ``folder``."""
    return float(run(TIMED.format(folder=str(folder)), "-S", switch=switch)[1])


def main() -> None:
    """Measure both and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as folder:
        empty, ours = Path(folder, "empty"), Path(folder, "ours")
        empty.mkdir()
        ours.mkdir()
        shutil.copy(ROOT / "leakage_tasks" / "harness" / "startup.pth", ours / "lm_eval_leakage.pth")
        shutil.copy(ROOT / "leakage_tasks" / "harness" / "startup.py", ours / "lm_eval_leakage_startup.py")
        starts = [(reading(empty), reading(ours), reading(ours, "0")) for _ in range(runs)]
        code = HELP.format(folder=str(ours))
        helps = [(run(code, switch="0")[0], run(code)[0]) for _ in range(runs)]
    without, with_it, switched_off = (1e3 * min(column) for column in zip(*starts, strict=True))
    off, on = (1e3 * min(column) for column in zip(*helps, strict=True))
    figures = {
        "interpreter": {"growth_ms": with_it - without, "growth_switched_off_ms": switched_off - without},
        "help": {"switched_off_ms": off, "with_plugin_ms": on, "growth_ms": on - off, "ratio": on / off},
        "runs": runs,
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
