"""Does a killed run end with the figures of one that was left alone? Killed again and again, and compared.

``python -m benchmarks.kill_and_resume -o FOLDER --kills 20`` makes a small model and canaries (some of them natural),
runs ``lm_eval`` on them undisturbed, then again with SIGKILL each time that a random number of findings more has been
kept, at a random moment after that. The last run is left alone. It prints how many findings each run met and exits
with 1 where samples or figures differ (seconds apart) by more than :data:`SAME`, since what is left shares its passes
with other rows, or a natural secret stands in what was kept.
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
"""Bits, or share of a number, that company may change."""
REUSED = re.compile(r"(canary_\w+): (\d+) of (\d+) findings")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; exit with 1 where something differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").replace("`", ""))
    parser.add_argument("-o", "--output", type=Path, required=True, help="a new folder")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--canaries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True)
    make_inputs(given.output, given.canaries)
    alone, killed = given.output / "alone", given.output / "killed"
    finish(start(given.output, alone))
    stream = random.Random(given.seed)
    total = len(TASKS) * len((given.output / "canaries.jsonl").read_text().splitlines())
    done = 0
    for left in range(given.kills, 0, -1):
        # So many that the last kill meets a run that is not done.
        more = stream.randint(1, max(1, 2 * (total - done) // (left + 1) - 1))
        done = kill_after(start(given.output, killed), killed, min(done + more, total - 1), stream.random() * 0.05)
        print(f"killed with {done} of {total} findings kept", flush=True)
    log = finish(start(given.output, killed))
    print("; ".join(f"{task}: {there} of {every} were there" for task, there, every in REUSED.findall(log)))
    most, problems = compared(outcome(alone), outcome(killed))
    problems += shown(killed)
    same = f"samples and figures are those of the undisturbed run to {most:.0e}, after {given.kills} kills"
    print("\n".join(problems) or same)
    raise SystemExit(1 if problems else 0)


def make_inputs(folder: Path, canaries: int) -> None:
    """A random model of characters, and a manifest of made-up and natural canaries."""
    torch.manual_seed(0)
    tokenizer = char_tokenizer(ALPHABET)
    config = GPT2Config(vocab_size=len(tokenizer), n_layer=2, n_embd=32, n_head=2, n_positions=96)
    config.bos_token_id = config.eos_token_id = tokenizer.bos_token_id
    GPT2LMHeadModel(config).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    (folder / "mail.txt").write_text("".join(f"Call me at {number}, please.\n" for number in NATURAL))
    made = make_canaries("pin {unique} is {digits:3}.", canaries // 2, repetitions=(1, 4), controls=canaries // 2)
    found = [replace(each, salt="0" * 32) for each in natural_canaries(corpus_passages(folder / "mail.txt"))]
    write_manifest([*made, *found], folder / "canaries.jsonl")


def start(inputs: Path, folder: Path) -> subprocess.Popen[str]:
    """Begin a run of ``lm_eval`` in a folder, its findings kept there."""
    folder.mkdir(exist_ok=True)
    given = ["--model_args", f"pretrained={inputs.absolute() / 'model'}", "--tasks", ",".join(TASKS), "--device", "cpu"]
    metadata = f"canaries={inputs.absolute() / 'canaries.jsonl'},resume=kept,budget=2000"
    words = ["--model", "hf", *given, "--metadata", metadata, "--output_path", "results", "--log_samples"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "lm_eval", *words]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def finish(run: subprocess.Popen[str]) -> str:
    """Let a run come to its end; what it logged."""
    log = run.communicate()[1]
    if run.returncode:
        raise SystemExit(f"a run failed:\n{log}")
    return log


def kill_after(run: subprocess.Popen[str], folder: Path, findings: int, seconds: float) -> int:
    """Kill a run so long after so many findings are kept; how many are then, torn ones apart."""
    while lines(folder) < findings:
        if run.poll() is not None:
            raise SystemExit(f"a run ended before it was killed:\n{run.communicate()[1]}")
        time.sleep(0.001)
    time.sleep(seconds)
    run.send_signal(signal.SIGKILL)
    run.communicate()
    return lines(folder)


def lines(folder: Path) -> int:
    """Findings kept by all runs in a folder."""
    return sum(file.read_bytes().count(b"\n") for file in (folder / "kept").glob(FILES))


def outcome(folder: Path) -> dict[str, Any]:
    """The rows of the results and all samples, by task, of the only run in a folder that came to its end."""
    (results,) = (folder / "results").rglob("results_*.json")
    found = {f"results {task}": rows for task, rows in json.loads(results.read_text())["results"].items()}
    for file in sorted((folder / "results").rglob("samples_*.jsonl")):
        for line in file.read_text().splitlines():
            found[f"sample {file.name.split('_2')[0]} {len(found)}"] = without_seconds(json.loads(line))
    return found


def without_seconds(value: Any) -> Any:
    """A sample without how long its attack took, in findings written as text too."""
    if isinstance(value, str) and value.startswith('{"'):
        return without_seconds(json.loads(value))
    if isinstance(value, dict):
        return {name: without_seconds(each) for name, each in value.items() if name != "seconds"}
    return [without_seconds(each) for each in value] if isinstance(value, list) else value


def compared(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, list[str]]:
    """How far numbers of two outcomes are apart at most, and what they do not have alike, in words."""
    apart = {name: difference(one.get(name), other.get(name)) for name in sorted({*one, *other})}
    problems = [f"{name} differs: {one.get(name)} | {other.get(name)}" for name in apart if apart[name] > SAME]
    return max(apart.values()), problems


def difference(one: Any, other: Any) -> float:
    """How far numbers of two values are apart at most, those above 1 as a share; infinite where anything else is."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((difference(one[name], other[name]) for name in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(difference, one, other), default=0.0)
    # What is no number is like nothing, itself included.
    if isinstance(one, float) and isinstance(other, float) and math.isfinite(one) and math.isfinite(other):
        return abs(one - other) / max(1.0, abs(one))
    return 0.0 if one == other else math.inf


def shown(folder: Path) -> Iterator[str]:
    """Natural secrets in what was kept."""
    kept = "".join(file.read_text() for file in (folder / "kept").glob(FILES))
    kept = "".join(each for each in kept if each.isalnum())
    for number in NATURAL:
        if number.replace("-", "") in kept:
            yield f"{number} stands in what was kept"


if __name__ == "__main__":
    main()
