"""Accuracy of ``leakage plan`` on six models. Prints a table and writes JSON.

``python -m benchmarks.plan_against_run [-o FILE]``. The models are a character LSTM trained on a text with canaries, a
GPT-2, a Llama, a BERT classifier, a masked BERT and a T5; all but the LSTM are untrained. For each task and kind of
canary, a row contains the plan's range from a pilot of five, and the actual cost of all canaries of that kind, counted
by hooks on the model. ``held`` is the share of 300 other pilots of five, drawn from the run's own findings, whose range
of sequences scored (``model_calls``) contains the true sum; it should be at least 0.8.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan
from leakage_tasks.planning.pilot import attack_together
from leakage_tasks.planning.plan import Planner, kind_of, planned_tasks
from leakage_tasks.selftest.run import load_model
from leakage_tasks.stats.totals import Stratum, total_range
from tests.encoders import save_base
from tests.oracles import letters, tiny_bert, tiny_gpt2, wordpiece

TASKS = ("canary_exposure", "canary_extraction")
CANARIES, PILOT, DRAWN, BUDGET = 15, 5, 300, 600
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "no", "dog"]
DIGITS = "the pin of {unique} is {digits:5}."


def lstm(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Train a 2×64 LSTM on one third of the planted canaries 40 times, one third 8 times and one third once."""
    from leakage_tasks.training.char_lstm import train_char_lm

    stream = random.Random(0)
    lines = [" ".join(stream.choices(WORDS, k=6)) + ".\n" for _ in range(100)]
    for index, canary in enumerate(canary for canary in canaries if canary.planted):
        lines += [f"{canary.text}\n"] * (1, 8, 40)[index % 3]
    stream.shuffle(lines)
    options: dict[str, Any] = {"epochs": 6, "batch_size": 16, "length": 32, "hidden_size": 64, "device": "cpu"}
    trained = train_char_lm("".join(lines), tokenizer=letters(), **options)
    return _saved(folder, trained.model, letters())


def gpt2(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Save a GPT-2 of two layers."""
    return _saved(folder, tiny_gpt2(letters()), letters())


def llama(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Save a Llama of two layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return _saved(folder, LlamaForCausalLM(LlamaConfig(vocab_size=len(letters()), **shape)), letters())


def classifier(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Save a BERT classifier of two layers."""
    return {**_saved(folder, tiny_bert(), wordpiece()), "model": "classifier-scorer"}


def masked(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Save a masked BERT of two layers."""
    return {"model": "masked-lm", "model_args": f"pretrained={save_base(folder)}"}


def t5(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Save a T5 of one layer."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    size = {"d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 1, "num_heads": 2, "vocab_size": len(letters())}
    model = T5ForConditionalGeneration(T5Config(**size, decoder_start_token_id=0, pad_token_id=0, eos_token_id=0))
    arguments = _saved(folder, model, letters())
    return {**arguments, "model_args": arguments["model_args"] + ",backend=seq2seq"}


def _saved(folder: Path, model: Any, tokenizer: Any) -> dict[str, Any]:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {"model": "hf", "model_args": f"pretrained={folder}"}


MODELS = {
    "LSTM, trained": (lstm, DIGITS, {}),
    "GPT-2": (gpt2, DIGITS, {}),
    "Llama": (llama, DIGITS, {}),
    "BERT classifier": (classifier, "the pin is {digit_words:2}", {"label": "mid"}),
    "masked BERT": (masked, "{unique} pin {letters:1}.", {}),
    "T5": (t5, "pin {digits:4}.", {"source": "the pin"}),
}


def canaries_for(template: str, label: str | None = None, source: str | None = None) -> list[Canary]:
    """Make an equal number of planted canaries and controls."""
    import dataclasses

    made = make_canaries(template, CANARIES, controls=CANARIES, seed=1, source=source)
    return [dataclasses.replace(canary, label=label) for canary in made]


def held(calls: list[int], kind: KindPlan) -> float:
    """Return the share of pilots whose range contains the true sum."""
    random_ = np.random.default_rng(0)
    inside = 0
    for _ in range(DRAWN):
        sample = tuple(float(cost) for cost in random_.choice(calls, PILOT, replace=False))
        low, high = total_range([Stratum(len(calls), sample, 1, max(kind.limits.rows, *calls))])
        inside += low - 1e-6 <= sum(calls) <= high + 1e-6
    return inside / DRAWN


def measured(name: str, folder: Path) -> list[dict[str, Any]]:
    """Measure one model; return a row for each task and kind of canary."""
    make, template, more = MODELS[name]
    canaries = canaries_for(template, **more)
    manifest = folder / "canaries.jsonl"
    write_manifest(canaries, manifest)
    lm = load_model(**_named(make(folder / "model", canaries)), batch_size="32", device="cpu")
    rows = []
    for planned in planned_tasks(TASKS, str(manifest), {"budget": BUDGET}):
        task, planner = planned.task_name, Planner(lm, planned, PILOT)
        for kind in planner.kinds():
            own_canaries = [request.canary for _, request in planner.pairs if kind_of(request.canary) == kind.kind]
            attempt = attack_together(own_canaries, planner.attacked, planner.modules, 1)
            ranges = {quantity: kind.estimate(quantity) for quantity in QUANTITIES}
            row: dict[str, Any] = {"model": name, "task": task, "attack": kind.attack, "kind": kind.kind}
            row["held"] = held([int(finding.model_calls or 0) for finding in attempt.findings.values()], kind)
            for quantity, estimate in ranges.items():
                actual = getattr(attempt.total, quantity)
                row[quantity] = {"low": estimate.low, "high": estimate.high, "took": actual, "worst": estimate.worst}
            rows.append(row)
            print(line(row), flush=True)
    return rows


def _named(model: dict[str, Any]) -> dict[str, Any]:
    return {"name": model["model"], "arguments": model["model_args"]}


def contains(low: float, high: float, took: float) -> bool:
    """Return True if a range contains the actual cost."""
    return low - 1e-6 <= took <= high + 1e-6


def range_and_cost(low: float, high: float, took: float, digits: int) -> str:
    """Return a planned range and the actual cost in words."""
    outside = "" if contains(low, high, took) else " **outside**"
    return f"{low:,.{digits}f} to {high:,.{digits}f}: {took:,.{digits}f}{outside}"


def line(row: dict[str, Any]) -> str:
    """Return a row of the table in Markdown."""
    cells = [row["model"], row["task"], row["attack"], row["kind"]]
    for quantity in QUANTITIES:
        estimate = row[quantity]
        cells.append(range_and_cost(estimate["low"], estimate["high"], estimate["took"], int(quantity == "seconds")))
    return "| " + " | ".join([*cells, f"{row['held']:.2f}"]) + " |"


def main() -> None:
    """Measure all models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", action="append", choices=list(MODELS))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.only or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            rows += measured(name, Path(folder))
    estimates = [row[quantity] for row in rows for quantity in QUANTITIES]
    inside = sum(contains(estimate["low"], estimate["high"], estimate["took"]) for estimate in estimates)
    least = min(row["held"] for row in rows)
    print(f"{inside} of {len(estimates)} ranges contain the actual cost; the lowest share held is {least:.2f}")
    if options.output:
        options.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
