"""Comparison of a run that was killed many times with an undisturbed run.

``python -m benchmarks.kill_and_resume -o FOLDER --kills 20`` makes a small model and canaries (some of them natural),
and runs ``lm_eval`` on them undisturbed. A second run gets SIGKILL and is started again, each time after a random
number of further findings and a random delay, and is left alone after the last kill. Prints the number of findings
that each run found. Exits with 1 if samples or metrics differ by more than :data:`SAME` (except seconds; the remaining
canaries share forward passes with other rows), or if a natural secret was written to the folder.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.canaries.natural import corpus_passages, natural_canaries
from leakage_tasks.core.journal import FILES
from leakage_tasks.models.char_tokenizer import char_tokenizer

TASKS = ("canary_exposure", "canary_extraction")
NATURAL = ("415-555-0137", "212-555-0164", "303-555-0158")
ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 .,:-'\n"
SAME = 1e-4
"""The largest allowed difference, in bits or as a share of a number, due to other rows in a batch."""
REUSED = re.compile(r"(canary_\w+): (\d+) of (\d+) findings")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the comparison; exit with 1 if there is a difference."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("`", ""))
    parser.add_argument("-o", "--output", type=Path, required=True, help="a new folder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--canaries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    options.output.mkdir(parents=True)
    make_inputs(options.output, options.canaries)
    alone, killed = options.output / "alone", options.output / "killed"
    finish(start(options.output, alone))
    stream = random.Random(options.seed)
    total = len(TASKS) * len((options.output / "canaries.jsonl").read_text().splitlines())
    done = 0
    for left in range(options.kills, 0, -1):
        # A number of findings such that the last kill still interrupts the run.
        more = stream.randint(1, max(1, 2 * (total - done) // (left + 1) - 1))
        done = kill_after(start(options.output, killed), killed, min(done + more, total - 1), stream.random() * 0.05)
        print(f"killed with {done} of {total} findings stored", flush=True)
    log = finish(start(options.output, killed))
    print("; ".join(f"{task}: {reused} of {number} reused" for task, reused, number in REUSED.findall(log)))
    most, problems = compared(outcome(alone), outcome(killed))
    problems += shown(killed)
    same = f"samples and metrics equal the undisturbed run to {most:.0e}, after {options.kills} kills"
    print("\n".join(problems) or same)
    raise SystemExit(1 if problems else 0)


def make_inputs(folder: Path, canaries: int) -> None:
    """Write a random character model, and a manifest of synthetic and natural canaries."""
    torch.manual_seed(0)
    tokenizer = char_tokenizer(ALPHABET)
    config = GPT2Config(vocab_size=len(tokenizer), n_layer=2, n_embd=32, n_head=2, n_positions=96)
    config.bos_token_id = config.eos_token_id = tokenizer.bos_token_id
    GPT2LMHeadModel(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "mail.txt").write_text("".join(f"Call me at {number}, please.\n" for number in NATURAL))
    made = make_canaries("pin {unique} is {digits:3}.", canaries // 2, repetitions=(1, 4), controls=canaries // 2)
    natural = [replace(canary, salt="0" * 32) for canary in natural_canaries(corpus_passages(folder / "mail.txt"))]
    write_manifest([*made, *natural], folder / "canaries.jsonl")


def start(inputs: Path, folder: Path) -> subprocess.Popen[str]:
    """Start a run of ``lm_eval`` that stores its findings in ``folder``."""
    folder.mkdir(exist_ok=True)
    model = ["--model", "hf", "--model_args", f"pretrained={inputs.absolute() / 'model'}", "--device", "cpu"]
    metadata = f"canaries={inputs.absolute() / 'canaries.jsonl'},resume=kept,budget=2000"
    output = ["--output_path", "results", "--log_samples"]
    words = [*model, "--tasks", ",".join(TASKS), "--metadata", metadata, *output]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "lm_eval", *words]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def finish(run: subprocess.Popen[str]) -> str:
    """Wait for a run to end and return its log."""
    log = run.communicate()[1]
    if run.returncode:
        raise SystemExit(f"a run failed:\n{log}")
    return log


def kill_after(run: subprocess.Popen[str], folder: Path, findings: int, seconds: float) -> int:
    """Kill a run ``seconds`` after it stored ``findings`` findings; return the number of complete findings."""
    while lines(folder) < findings:
        if run.poll() is not None:
            raise SystemExit(f"a run ended before it was killed:\n{run.communicate()[1]}")
        time.sleep(0.001)
    time.sleep(seconds)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    return lines(folder)


def lines(folder: Path) -> int:
    """Return the number of stored findings in a folder."""
    return sum(file.read_bytes().count(b"\n") for file in (folder / "kept").glob(FILES))


def outcome(folder: Path) -> dict[str, Any]:
    """Return metrics and samples, by task, of the only finished run in a folder."""
    (results,) = (folder / "results").rglob("results_*.json")
    values = {f"results {task}": rows for task, rows in json.loads(results.read_text())["results"].items()}
    for file in sorted((folder / "results").rglob("samples_*.jsonl")):
        for line in file.read_text().splitlines():
            values[f"sample {file.name.split('_2')[0]} {len(values)}"] = without_seconds(json.loads(line))
    return values


def without_seconds(value: Any) -> Any:
    """Return a sample without its seconds, also in findings that are stored as text."""
    if isinstance(value, str) and value.startswith('{"'):
        return without_seconds(json.loads(value))
    if isinstance(value, dict):
        return {name: without_seconds(item) for name, item in value.items() if name != "seconds"}
    return [without_seconds(item) for item in value] if isinstance(value, list) else value


def compared(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, list[str]]:
    """Return the largest difference between two outcomes, and a message for each unequal value."""
    apart = {name: difference(one.get(name), other.get(name)) for name in sorted({*one, *other})}
    problems = [f"{name} differs: {one.get(name)} | {other.get(name)}" for name in apart if apart[name] > SAME]
    return max(apart.values()), problems


def difference(one: Any, other: Any) -> float:
    """Return the largest difference of numbers, relative for numbers above 1; infinite for any other difference."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((difference(one[name], other[name]) for name in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(difference, one, other), default=0.0)
    # NaN and infinity count as different from everything.
    if isinstance(one, float) and isinstance(other, float) and math.isfinite(one) and math.isfinite(other):
        return abs(one - other) / max(1.0, abs(one))
    return 0.0 if one == other else math.inf


def shown(folder: Path) -> Iterator[str]:
    """Yield a message for each natural secret in the stored findings."""
    stored = "".join(file.read_text() for file in (folder / "kept").glob(FILES))
    stored = "".join(letter for letter in stored if letter.isalnum())
    for number in NATURAL:
        if number.replace("-", "") in stored:
            yield f"{number} is in the stored findings"


if __name__ == "__main__":
    main()
