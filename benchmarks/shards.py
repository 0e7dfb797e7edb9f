"""Planting into shards, checking them and taking canaries out: wall time of two processes beside one, and peak memory.

``python -m benchmarks.shards --gigabytes 10 --folder /scratch`` writes so much text to a new folder there, runs
``leakage plant``, ``verify`` and ``plant --remove`` with one job and with two, and prints the time, the megabytes a
second and the peak resident memory of each process, then for each command the ratio of the times, and whether the
outputs are the same bytes and the originals came back. Files are removed as soon as nothing needs them: at most three
times the text is on the disk. Exit code 1 where a ratio is below 1.7, a process had more than 500 MB, or bytes differ.
Run it on an idle machine; below 2 GB the half second that processes take to start is too much of the whole for 1.7.
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
"""The least ratio of the times, and the most MB of a process."""


def main() -> None:
    """Write, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=0.2)
    parser.add_argument("--shards", type=int, default=16)
    parser.add_argument("--kind", default="jsonl", choices=("jsonl", "jsonl.zst", "jsonl.gz", "txt"))
    parser.add_argument("--folder", type=Path, default=None, help="where the scratch folder is made")
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="shards-", dir=asked.folder))
    try:
        good = compare(folder, asked.gigabytes, asked.shards, asked.kind)
    finally:
        shutil.rmtree(folder)
    raise SystemExit(not good)


def compare(folder: Path, gigabytes: float, shards: int, kind: str) -> bool:
    """The three commands with one job and with two; whether all goals are met."""
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
            told = ", ".join(map(str, peaks))
            speed = gigabytes * 1e3 / times[name, jobs]
            print(
                f"{name}, --jobs {jobs}: {times[name, jobs]:.1f} s, {speed:.0f} MB/s; peak of each process: {told} MB",
                flush=True,
            )
        planted[jobs] = hashes_of(output)
        same = same and before in (None, hashes_of(back))
        for place in (output, back):
            shutil.rmtree(place)
    ratios = {name: times[name, 1] / times[name, 2] for name in commands(manifest, source, source, source)}
    for name, ratio in ratios.items():
        print(f"{name}: two processes are {ratio:.2f} times one")
    same = same and planted[1] == planted[2]
    print(f"{'same bytes' if same else 'OTHER BYTES'}; at most {largest} MB a process")
    return same and largest <= MOST_MEMORY and min(ratios.values()) >= GOAL


def commands(manifest: Path, source: Path, output: Path, back: Path) -> dict[str, tuple[object, ...]]:
    """What is timed, by name, in this order."""
    return {
        "plant": ("plant", manifest, source, "-o", output),
        "verify": ("verify", output, manifest),
        "plant --remove": ("plant", "--remove", output, "-o", back),
    }


def write(folder: Path, size: int, shards: int, kind: str) -> None:
    """So many files of ``size`` bytes of text each, unpacked."""
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
    """Those of the files, by name; a file is read in blocks."""
    found = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def run(*words: object) -> tuple[float, list[int]]:
    """Seconds that ``leakage`` took, and the peaks in MB of it and the processes it started, the largest first."""
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
    """The children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def peak_of(process: int) -> int:
    """MB of resident memory that a process had at most."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1_024 // 1_000_000 if found else 0


if __name__ == "__main__":
    main()
