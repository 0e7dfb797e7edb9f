"""Runs in one, two and three processes: equality of results, and the time that processes wait for each other.

``python -m benchmarks.processes FOLDER [--canaries 80] [--digits 6] [--seeds 1]`` runs every task and attack on small
models with ``torchrun`` and prints the differences of results from one process. Then it trains a model on half of some
canaries, once per seed, and prints the rows and the waiting time of each process, and for comparison the rows if each
process took every n-th document, as the harness does. Rows are sequences scored and do not depend on the machine's
load.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.small_models import random_model
from benchmarks.together import SHAPES, _teach
from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.core.journal import FILES
from leakage_tasks.models.char_tokenizer import char_tokenizer
from tests.launched import CASES, free_port, launch, make_inputs

TASKS = ("canary_exposure", "canary_extraction")
PROCESSES = (1, 2, 3)
SPENT = re.compile(r"process (\d+) answered (\d+) of \d+ requests in ([\d.]+) s and waited ([\d.]+) s")


def main() -> None:
    """Compare results, measure waiting times and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("`", ""))
    parser.add_argument("folder", type=Path, help="a new folder")
    parser.add_argument("--canaries", type=int, default=80)
    parser.add_argument("--digits", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=1, help="number of models and sets of canaries for waiting times")
    parser.add_argument("--waits-only", action="store_true", help="skip the comparison of results")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    folder = options.folder.absolute()
    if not options.waits_only:
        print(*parity(folder), sep="\n", flush=True)
    columns = ("canaries of each", "rows of each", "rows apart", "seconds of each", "waited", "rows apart, every n-th")
    print(f"| task | processes | seed | {' | '.join(columns)} |\n|---|---:|---:|---|---|---:|---|---:|---:|")
    for seed in range(options.seeds):
        inputs = folder / f"seed-{seed}"
        inputs.mkdir()
        teach(inputs, options.canaries, options.digits, options.epochs, seed)
        for line in waits(inputs, seed):
            print(line, flush=True)


def parity(folder: Path) -> Iterator[str]:
    """Yield the table of differences between several processes and one process."""
    inputs = folder / "inputs"
    inputs.mkdir()
    make_inputs(inputs)
    one, *several = (launch(inputs, folder / f"cases-{number}", number, CASES) for number in PROCESSES)
    yield (
        "| run | figures | " + " | ".join(f"largest difference, {number} processes" for number in PROCESSES[1:]) + " |"
    )
    yield "|---|---:|" + "---:|" * len(several)
    for name in CASES:
        figures = flat(one[name]["results"])
        others = [flat(run[name]["results"]) for run in several]
        assert all(other.keys() == figures.keys() for other in others), name
        far = [max(abs(other[key] - figures[key]) for key in figures) for other in others]
        yield f"| {name} | {len(figures)} | " + " | ".join(f"{difference:.1g}" for difference in far) + " |"


def flat(results: dict[str, Any]) -> dict[str, float]:
    """Return the metrics of all tasks by name."""
    rows = ((f"{task} {name}", value) for task, row in results.items() for name, value in row.items())
    return {name: value for name, value in rows if isinstance(value, float | int)}


def teach(folder: Path, number: int, digits: int, epochs: int, seed: int) -> None:
    """Train a model on half of the canaries."""
    torch.manual_seed(seed)
    half, template = number // 2, f"The code of {{unique}} is {{digits:{digits}}}."
    canaries = make_canaries(template, half, repetitions=(1, 4), controls=half, seed=seed)
    write_manifest(canaries, folder / "canaries.jsonl")
    tokenizer = char_tokenizer(sorted({*"0123456789".join(canary.text for canary in canaries)}))
    model = random_model(**SHAPES["gpt2-tiny"], vocab_size=len(tokenizer))
    _teach(model, tokenizer, [canary.text for canary in canaries if canary.planted], epochs)
    model.config.bos_token_id = model.config.eos_token_id = tokenizer.bos_token_id
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")


def waits(folder: Path, seed: int) -> Iterator[str]:
    """Yield lines of the table of rows and waiting times of each process."""
    for number in PROCESSES[1:]:
        log = run(folder, folder / f"run-{number}", number)
        spent = SPENT.findall(log)
        for index, task in enumerate(TASKS):
            processes = sorted(spent[index * number : (index + 1) * number])
            seconds = [float(worked) for _, _, worked, _ in processes]
            waited = max(float(waited) / (float(worked) + float(waited)) for _, _, worked, waited in processes)
            rows = [sum(calls) for calls in calls_of(folder / f"run-{number}", task)]
            dealt = [
                sum(every[rank::number])
                for every in [in_turn(folder / f"run-{number}", task)]
                for rank in range(number)
            ]
            yield (
                f"| {task} | {number} | {seed} | {', '.join(count for _, count, *_ in processes)} "
                f"| {', '.join(map(str, rows))} "
                f"| {apart(rows)} | {', '.join(f'{time:.1f}' for time in seconds)} | {waited:.1%} | {apart(dealt)} |"
            )


def apart(rows: Sequence[int]) -> str:
    """Return the relative difference between the largest and the smallest number of rows."""
    return f"{1 - min(rows) / max(rows):.1%}"


def run(inputs: Path, folder: Path, processes: int) -> str:
    """Run both tasks and return the log."""
    folder.mkdir()
    arguments = ["--model_args", f"pretrained={inputs / 'model'}", "--tasks", ",".join(TASKS), "--device", "cpu"]
    arguments += ["--metadata", f"canaries={inputs / 'canaries.jsonl'},resume=kept"]
    arguments += ["--output_path", "out", "--log_samples"]
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node", str(processes), "--master_port", free_port()]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "LMEVAL_LOG_LEVEL": "DEBUG"}
    words = [sys.executable, *launcher, "-m", "lm_eval", "--model", "hf", *arguments]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"a run failed:\n{done.stderr}")
    return done.stderr


def calls_of(folder: Path, task: str) -> list[list[int]]:
    """Return the rows of each canary, by process."""
    files = (folder / "kept").glob(FILES)
    stored = ([json.loads(line) for line in file.read_text().splitlines()] for file in files)
    return [
        [json.loads(record["finding"])["model_calls"] for record in records if record["task"] == task]
        for records in stored
    ]


def in_turn(folder: Path, task: str) -> list[int]:
    """Return the rows of each canary in the order of documents."""
    (file,) = folder.rglob(f"samples_{task}_*.jsonl")
    samples = sorted((json.loads(line) for line in file.read_text().splitlines()), key=lambda sample: sample["doc_id"])
    return [json.loads(sample["resps"][0][0])["model_calls"] for sample in samples]


if __name__ == "__main__":
    main()
