"""Planting into shards, checking them and taking canaries out: wall time of two processes beside one, and peak memory.

``python -m benchmarks.shards --gigabytes 10 --folder /scratch`` writes so much text to a new folder there, runs
``leakage plant``, ``verify`` and ``plant --remove`` with one job and with two, and prints the ratio of their times, the
peak resident memory of each process, and whether the outputs are the same bytes. Run it on an idle machine.
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
WORDS = 5_000


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
        compare(folder, asked.gigabytes, asked.shards, asked.kind)
    finally:
        shutil.rmtree(folder)


def compare(folder: Path, gigabytes: float, shards: int, kind: str) -> None:
    """Both commands with one job and with two."""
    source, manifest = folder / "in", folder / "canaries.jsonl"
    write(source, int(gigabytes * 1e9 / shards), shards, kind)
    run("canaries", "--template", "The random number of {unique} is {digits:9}.", "-o", manifest)
    print(f"{gigabytes} GB of text in {shards} files of .{kind}, {os.cpu_count()} processors", flush=True)
    hashes = {}
    times: dict[tuple[str, int], float] = {}
    for jobs in (1, 2):
        output = folder / f"out-{jobs}"
        commands = {
            "plant": ("plant", manifest, source, "-o", output),
            "verify": ("verify", output, manifest),
            "plant --remove": ("plant", "--remove", output, "-o", folder / f"back-{jobs}"),
        }
        for name, words in commands.items():
            seconds, peaks = run(*words, "--jobs", jobs)
            times[name, jobs] = seconds
            told = ", ".join(f"{peak} MiB" for peak in peaks)
            print(f"{name}, --jobs {jobs}: {seconds:.1f} s; peak of each process: {told}", flush=True)
        hashes[jobs] = [hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(output.iterdir())]
        for place in (output, folder / f"back-{jobs}"):
            shutil.rmtree(place)
    for name in commands:
        print(f"{name}: two processes are {times[name, 1] / times[name, 2]:.2f} times one")
    print("same bytes" if hashes[1] == hashes[2] else "OTHER BYTES")


def write(folder: Path, size: int, shards: int, kind: str) -> None:
    """So many files of ``size`` bytes of text each, unpacked."""
    from leakage_tasks.data.packed import open_output

    folder.mkdir()
    stream = random.Random(0)
    words = ["".join(stream.choices("abcdefghijklmnopqrstuvwxyz", k=stream.randint(2, 9))) for _ in range(WORDS)]
    for shard in range(shards):
        left = size
        with open_output(folder / f"{shard:03}.{kind}") as out:
            while left > 0:
                text = " ".join(stream.choices(words, k=150))
                line = f"{text}\n" if kind == "txt" else json.dumps({"text": text}) + "\n"
                out.write(line.encode())
                left -= len(line)


def run(*words: object) -> tuple[float, list[int]]:
    """Seconds that ``leakage`` took, and the peaks in MiB of its process and those that it started."""
    begun = time.perf_counter()
    command = [sys.executable, "-c", LEAKAGE, *map(str, words)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peaks: dict[int, int] = {}
    while running.poll() is None:
        for process in [running.pid, *started_by(running.pid)]:
            peaks[process] = max(peaks.get(process, 0), peak_of(process))
        time.sleep(0.05)
    if running.returncode:
        raise SystemExit(f"leakage {' '.join(map(str, words))}: exit {running.returncode}")
    return time.perf_counter() - begun, sorted(peaks.values(), reverse=True)


def started_by(process: int) -> list[int]:
    """The children of a process."""
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def peak_of(process: int) -> int:
    """MiB of resident memory that a process had at most."""
    try:
        found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) >> 10 if found else 0


if __name__ == "__main__":
    main()
