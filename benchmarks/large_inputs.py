"""Time and memory of the reports on many runs, and on one run with many samples.

``python -m benchmarks.large_inputs`` writes 1,000 results files with small samples and one run of 100,000 canaries, and
prints one line per command. Exits with 1 if a command takes more than a minute or one GB. Memory is read from
``/proc``.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks import ROOT
from tests.report.pages import canary, usual_canaries, write_run

SECONDS, MEGABYTES = 60.0, 1000.0
LEAKAGE = """
import atexit, re, sys
from pathlib import Path
peak_file = Path(sys.argv.pop(1))
# The system's own figure for a child includes the memory of its parent.
peak = re.compile(r"VmHWM:\\s+(\\d+)")
atexit.register(lambda: peak_file.write_text(peak.search(Path("/proc/self/status").read_text())[1]))
from leakage_tasks.cli import main
main()
"""


@dataclass(frozen=True)
class Cost:
    """Time and memory of one command; ``returned`` is its exit code, 2 or more after a failure."""

    command: str
    size: str
    seconds: float
    megabytes: float
    returned: int

    @property
    def good(self) -> bool:
        """True if the command succeeded within the limits."""
        return self.returned < 2 and self.seconds <= SECONDS and self.megabytes <= MEGABYTES


def write_runs(folder: Path, number: int) -> None:
    """Write results files of ``number`` models with samples of eight canaries each."""
    for index in range(number):
        canaries = usual_canaries(index / number, index % 10, each=2)
        write_run(folder / f"{index // 100}", f"models/{index}", canaries, useful={"lambada": index / number})


def write_large_run(folder: Path, number: int) -> None:
    """Write a run of ``number`` canaries, a quarter of them controls."""
    chance = random.Random(0)
    canaries = [
        canary(f"c-{index}", rank=chance.randrange(1, 10**6), repetitions=(0, 1, 4, 16)[index % 4])
        for index in range(number)
    ]
    write_run(folder, "models/large", canaries)


def run_command(words: Sequence[str | Path], size: str) -> Cost:
    """Run a ``leakage`` command in its own process and measure it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    with tempfile.TemporaryDirectory() as folder:
        peak_file = Path(folder, "peak")
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", LEAKAGE, *map(str, (peak_file, *words))], env=environment, capture_output=True
        )
        spent = time.perf_counter() - start
        kilobytes = int(peak_file.read_text())
    command = " ".join(map(str, words[: 2 if words[0] == "plot" else 1]))
    return Cost(command, size, spent, kilobytes * 1024 / 1e6, done.returncode)


def measure(folder: Path, runs: int, samples: int) -> list[Cost]:
    """Write both inputs and run every report on them."""
    many, large = folder / "many", folder / "large"
    write_runs(many, runs)
    write_large_run(large, samples)
    costs = []
    for source, size in ((many, f"{runs:,} runs"), (large, f"{samples:,} samples a task")):
        commands: list[list[str | Path]] = [
            ["leaderboard", source, "-o", folder / "board.html", "-o", folder / "board.csv"],
            ["score", source],
            ["check", source, "--max-exposure", "3"],
        ]
        if source == large:
            # These commands are for one run, or for a few.
            commands.append(["card", source, "--card", folder / "README.md"])
            commands.append(["plot", "repetitions", source, "-o", folder / "plot.png"])
        costs += [run_command(words, size) for words in commands]
    return costs


def main() -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        costs = measure(Path(folder), options.runs, options.samples)
    print(f"{'command':<18} {'size':<24} {'s':>7} {'MB':>7}")
    for cost in costs:
        print(
            f"{cost.command:<18} {cost.size:<24} {cost.seconds:>7.1f} {cost.megabytes:>7.0f}  "
            f"{'' if cost.good else 'too much' if cost.returned < 2 else 'failed'}".rstrip()
        )
    return 0 if all(cost.good for cost in costs) else 1


if __name__ == "__main__":
    sys.exit(main())
