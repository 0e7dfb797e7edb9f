"""Seconds and memory that the reports take on very many runs, and on one run with very many samples.

``python -m benchmarks.large_inputs`` makes 1,000 results files with small samples and one run of 100,000 canaries, and
prints a line a command. It exits with 1 where one takes more than a minute or a GB. Memory is read from ``/proc``.
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

from tests.report.pages import canary, usual_canaries, write_run

SECONDS, MEGABYTES = 60.0, 1000.0
LEAKAGE = """
import atexit, re, sys
from pathlib import Path
told = Path(sys.argv.pop(1))
# What the system says of a child starts from the memory of its parent.
peak = re.compile(r"VmHWM:\\s+(\\d+)")
atexit.register(lambda: told.write_text(peak.search(Path("/proc/self/status").read_text())[1]))
from leakage_tasks.cli import main
main()
"""


@dataclass(frozen=True)
class Taken:
    """What one command took; ``returned`` is its exit code, 2 or more where it failed."""

    command: str
    size: str
    seconds: float
    megabytes: float
    returned: int

    @property
    def good(self) -> bool:
        """Whether it did what it should in what it may take."""
        return self.returned < 2 and self.seconds <= SECONDS and self.megabytes <= MEGABYTES


def write_runs(folder: Path, number: int) -> None:
    """Results files of so many models, with the samples of eight canaries each."""
    for place in range(number):
        canaries = usual_canaries(place / number, place % 10, each=2)
        write_run(folder / f"{place // 100}", f"models/{place}", canaries, useful={"lambada": place / number})


def write_large_run(folder: Path, number: int) -> None:
    """A run of so many canaries, a fourth of them controls."""
    chance = random.Random(0)
    canaries = [
        canary(f"c-{place}", rank=chance.randrange(1, 10**6), repetitions=(0, 1, 4, 16)[place % 4])
        for place in range(number)
    ]
    write_run(folder, "models/large", canaries)


def take(words: Sequence[str | Path], size: str) -> Taken:
    """Run ``leakage`` with these words, in a process of its own."""
    root = Path(__file__).resolve().parent.parent
    environment = os.environ | {"PYTHONPATH": str(root), "OMP_NUM_THREADS": "2"}
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "peak")
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-c", LEAKAGE, *map(str, (told, *words))], env=environment, capture_output=True
        )
        spent = time.perf_counter() - start
        kilobytes = int(told.read_text())
    command = " ".join(map(str, words[: 2 if words[0] == "plot" else 1]))
    return Taken(command, size, spent, kilobytes * 1024 / 1e6, done.returncode)


def measure(folder: Path, runs: int, samples: int) -> list[Taken]:
    """Write both inputs to a folder and run every report on them."""
    many, large = folder / "many", folder / "large"
    write_runs(many, runs)
    write_large_run(large, samples)
    taken = []
    for source, size in ((many, f"{runs:,} runs"), (large, f"{samples:,} samples a task")):
        commands: list[list[str | Path]] = [
            ["leaderboard", source, "-o", folder / "board.html", "-o", folder / "board.csv"],
            ["score", source],
            ["check", source, "--max-exposure", "3"],
        ]
        if source == large:
            # These show one run, or some.
            commands.append(["card", source, "--card", folder / "README.md"])
            commands.append(["plot", "repetitions", source, "-o", folder / "plot.png"])
        taken += [take(words, size) for words in commands]
    return taken


def main() -> int:
    """Measure and print; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        taken = measure(Path(folder), options.runs, options.samples)
    print(f"{'command':<18} {'size':<24} {'s':>7} {'MB':>7}")
    for each in taken:
        print(
            f"{each.command:<18} {each.size:<24} {each.seconds:>7.1f} {each.megabytes:>7.0f}  "
            f"{'' if each.good else 'too much' if each.returned < 2 else 'failed'}".rstrip()
        )
    return 0 if all(each.good for each in taken) else 1


if __name__ == "__main__":
    sys.exit(main())
