"""Time and peak memory of planting into shards, verifying and unplanting, with one process and with two.

``python -m benchmarks.shards --gigabytes 10 --folder /scratch`` writes that much text to a new folder, and runs
``leakage plant``, ``verify`` and ``plant --remove`` with one job and with two. Prints the time, MB per second and peak
resident memory of each process, then the ratio of the times for each command. Checks that both outputs are equal and
that the originals were restored. Needs at most three times the text on the disk. Exits with 1 if a ratio is below 1.7,
a process had more than 500 MB, or bytes differ. Use an idle machine and at least 2 GB: with less, the half second that
processes take to start is too large a part for 1.7.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LEAKAGE = "from leakage_tasks.cli import main; main()"
WORDS, TEXTS = 5_000, 20_000
GOAL, MOST_MEMORY = 1.7, 500
"""The minimum ratio of the times, and the maximum MB of a process."""


def main() -> None:
    """Run the comparison in a temporary folder; exit with 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--kind", default="jsonl", choices=("jsonl", "jsonl.zst", "jsonl.gz", "txt"))
    parser.add_argument("--folder", type=Path, default=None, help="parent of the temporary folder")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shards-", dir=options.folder))
    try:
        good = compare(folder, options.gigabytes, options.shards, options.kind)
    finally:
        shutil.rmtree(folder)
    raise SystemExit(not good)


def compare(folder: Path, gigabytes: float, shards: int, kind: str) -> bool:
    """Run the three commands with one job and with two; return True if all goals are met."""
    source, manifest = folder / "in", folder / "canaries.jsonl"
    write(source, int(gigabytes * 1e9 / shards), shards, kind)
    run("canaries", "--template", "The random number of {unique} is {digits:9}.", "-o", manifest)
    print(f"{gigabytes} GB of text in {shards} files of .{kind}, {os.cpu_count()} processors", flush=True)
    before = None if "." in kind else hashes_of(source)
    planted: dict[int, list[str]] = {}
    times: dict[tuple[str, int], float] = {}
    largest, same = 0, True
    for jobs in (1, 2):
        output, back = folder / f"out-{jobs}", folder / f"back-{jobs}"
        for name, words in commands(manifest, source, output, back).items():
            times[name, jobs], peaks = run(*words, "--jobs", jobs)
            largest = max(largest, *peaks)
            peak_list = ", ".join(map(str, peaks))
            speed = gigabytes * 1e3 / times[name, jobs]
            print(
                f"{name}, --jobs {jobs}: {times[name, jobs]:.1f} s, {speed:.0f} MB/s; peak memory: {peak_list} MB",
                flush=True,
            )
        planted[jobs] = hashes_of(output)
        same = same and before in (None, hashes_of(back))
        for path in (output, back):
            shutil.rmtree(path)
    ratios = {name: times[name, 1] / times[name, 2] for name in commands(manifest, source, source, source)}
    for name, ratio in ratios.items():
        print(f"{name}: two processes are {ratio:.2f} times one")
    same = same and planted[1] == planted[2]
    print(f"{'same bytes' if same else 'OTHER BYTES'}; at most {largest} MB a process")
    return same and largest <= MOST_MEMORY and min(ratios.values()) >= GOAL


def commands(manifest: Path, source: Path, output: Path, back: Path) -> dict[str, tuple[object, ...]]:
    """Return the arguments of the timed commands by name, in order."""
    return {
        "plant": ("plant", manifest, source, "-o", output),
        "verify": ("verify", output, manifest),
        "plant --remove": ("plant", "--remove", output, "-o", back),
    }


def write(folder: Path, size: int, shards: int, kind: str) -> None:
    """Write ``shards`` files of ``size`` bytes of uncompressed text each."""
    from leakage_tasks.data.packed import open_output

    folder.mkdir()
    stream = random.Random(0)
    words = ["".join(stream.choices("abcdefghijklmnopqrstuvwxyz", k=stream.randint(2, 9))) for _ in range(WORDS)]
    texts = [" ".join(stream.choices(words, k=150)) for _ in range(TEXTS)]
    lines = [(f"{text}\n" if kind == "txt" else json.dumps({"text": text}) + "\n").encode() for text in texts]
    for shard in range(shards):
        left = size
        with open_output(folder / f"{shard:03}.{kind}") as out:
            while left > 0:
                line = stream.choice(lines)
                out.write(line)
                left -= len(line)


def hashes_of(folder: Path) -> list[str]:
    """Return the hashes of the files in ``folder``, in the order of their names."""
    hashes = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            hashes.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashes


def run(*words: object) -> tuple[float, list[int]]:
    """Run ``leakage``; return the seconds, and the peak MB of it and of its child processes, the largest first."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", LEAKAGE, *map(str, words)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peaks: dict[int, int] = {}
    while running.poll() is None:
        for process in [running.pid, *started_by(running.pid)]:
            peaks[process] = max(peaks.get(process, 0), peak_of(process))
        time.sleep(0.02)
    seconds = time.perf_counter() - begun
    if running.returncode:
        raise SystemExit(f"leakage {' '.join(map(str, words))}: exit {running.returncode}")
    return seconds, sorted(peaks.values(), reverse=True)


def started_by(process: int) -> list[int]:
    """Return the ids of a process' children."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def peak_of(process: int) -> int:
    """Return the peak resident memory of a process in MB."""
    try:
        match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(match[1]) * 1_024 // 1_000_000 if match else 0


if __name__ == "__main__":
    main()
