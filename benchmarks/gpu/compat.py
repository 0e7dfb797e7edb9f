"""A part of the compatibility table on the GPU, by ``benchmarks.compat``."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.gpu.report import FAILED, HELD, Report, device, step_options

SECONDS, TINY_SECONDS = 28, 5


def main() -> None:
    """Run as many cells as the time allows, one of each architecture first."""
    options = step_options(__doc__).parse_args()
    report, limit = Report("compat", options.out), TINY_SECONDS if options.tiny else SECONDS
    words = [sys.executable, "-m", "benchmarks.compat", "--device", device(), "--seconds", str(limit)]
    done = subprocess.run([*words, "--output", str(options.out / "compat")], capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="\n")
    lines = done.stdout.splitlines() or [done.stderr.strip().rpartition("\n")[2] or "no output"]
    for line in lines[:-1]:
        if " fail " in line:
            report.add("cell", " ".join(line.split()).replace("|", "/"), FAILED)
    report.add(f"cells in {limit} s", lines[-1].replace("|", "/"), HELD if done.returncode == 0 else FAILED)
    report.exit()


if __name__ == "__main__":
    main()
