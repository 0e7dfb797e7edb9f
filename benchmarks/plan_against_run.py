"""What ``leakage plan`` says before a run against what the run takes, on six models: prints a table and JSON.

``python -m benchmarks.plan_against_run [-o FILE]``. The models are a character LSTM trained on a text with canaries in
it, a GPT-2 and a Llama shape, a BERT classifier, a masked BERT and a T5, all but the first untrained. For each task and
kind of canary the row says what the plan's range was, from a pilot of five, and what all canaries of that kind took,
with everything counted by hooks on the model itself. ``held`` is the share of 300 other pilots of five, drawn from the
run's own findings, whose range of sequences scored (``model_calls``) holds their sum; 0.8 is wanted.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from leakage_tasks.canaries import Canary, make_canaries, write_manifest  # noqa: E402
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan  # noqa: E402
from leakage_tasks.planning.pilot import taken_together  # noqa: E402
from leakage_tasks.planning.plan import Planner, kind_of  # noqa: E402
from leakage_tasks.selftest.run import load_model  # noqa: E402
from leakage_tasks.stats.totals import Stratum, total_range  # noqa: E402
from tests.encoders import save_base  # noqa: E402
from tests.oracles import letters, tiny_bert, tiny_gpt2, wordpiece  # noqa: E402

TASKS = ("canary_exposure", "canary_extraction")
CANARIES, PILOT, DRAWN, BUDGET = 15, 5, 300, 600
WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "saw", "no", "dog"]
DIGITS = "the pin of {unique} is {digits:5}."


def lstm(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """A 2×64 LSTM that has read a third of the planted canaries often, a third sometimes, a third once."""
    from leakage_tasks.training.char_lstm import train_char_lm

    stream = random.Random(0)
    lines = [" ".join(stream.choices(WORDS, k=6)) + ".\n" for _ in range(100)]
    for place, canary in enumerate(each for each in canaries if each.planted):
        lines += [f"{canary.text}\n"] * (1, 8, 40)[place % 3]
    stream.shuffle(lines)
    how: dict[str, Any] = {"epochs": 6, "batch_size": 16, "length": 32, "hidden_size": 64, "device": "cpu"}
    trained = train_char_lm("".join(lines), tokenizer=letters(), **how)
    return _saved(folder, trained.model, letters())


def gpt2(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """A GPT-2 of two layers."""
    return _saved(folder, tiny_gpt2(letters()), letters())


def llama(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """A Llama of two layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    return _saved(folder, LlamaForCausalLM(LlamaConfig(vocab_size=len(letters()), **shape)), letters())


def classifier(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """A BERT classifier of two layers."""
    return {**_saved(folder, tiny_bert(), wordpiece()), "model": "classifier-scorer"}


def masked(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """A masked BERT of two layers."""
    return {"model": "masked-lm", "model_args": f"pretrained={save_base(folder)}"}


def t5(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """A T5 of one layer."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    size = {"d_model": 16, "d_ff": 32, "d_kv": 8, "num_layers": 1, "num_heads": 2, "vocab_size": len(letters())}
    model = T5ForConditionalGeneration(T5Config(**size, decoder_start_token_id=0, pad_token_id=0, eos_token_id=0))
    found = _saved(folder, model, letters())
    return {**found, "model_args": found["model_args"] + ",backend=seq2seq"}


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
    """As many planted as controls."""
    import dataclasses

    made = make_canaries(template, CANARIES, controls=CANARIES, seed=1, source=source)
    return [dataclasses.replace(each, label=label) for each in made]


def held(calls: list[int], kind: KindPlan) -> float:
    """The share of pilots whose range holds the sum of all."""
    random_ = np.random.default_rng(0)
    ends = kind.bounds.rows
    inside = 0
    for _ in range(DRAWN):
        sample = tuple(float(each) for each in random_.choice(calls, PILOT, replace=False))
        low, high = total_range([Stratum(len(calls), sample, min(ends.least, *calls), max(ends.most, *calls))])
        inside += low - 1e-6 <= sum(calls) <= high + 1e-6
    return inside / DRAWN


def measured(name: str, folder: Path) -> list[dict[str, Any]]:
    """A row for each task and kind of canary on one model."""
    make, template, more = MODELS[name]
    canaries = canaries_for(template, **more)
    manifest = folder / "canaries.jsonl"
    write_manifest(canaries, manifest)
    lm = load_model(**_named(make(folder / "model", canaries)), batch_size="32", device="cpu")
    rows = []
    for task in TASKS:
        planner = Planner(lm, task, str(manifest), {"budget": BUDGET}, PILOT)
        for kind in planner.kinds():
            own = [request.canary for _, request in planner.pairs if kind_of(request.canary) == kind.kind]
            findings, took = taken_together(own, planner.attacked, planner.modules, 1)
            ranges = {each: kind.estimate(each) for each in QUANTITIES}
            row: dict[str, Any] = {"model": name, "task": task, "attack": kind.attack, "kind": kind.kind}
            row["held"] = held([int(found.model_calls or 0) for found in findings], kind)
            for each, found in ranges.items():
                row[each] = {"low": found.low, "high": found.high, "took": getattr(took, each), "worst": found.worst}
            rows.append(row)
            print(line(row), flush=True)
    return rows


def _named(given: dict[str, Any]) -> dict[str, Any]:
    return {"name": given["model"], "arguments": given["model_args"]}


def line(row: dict[str, Any]) -> str:
    """A row of the table in Markdown."""
    cells = [row["model"], row["task"], row["attack"], row["kind"]]
    for each in QUANTITIES:
        found = row[each]
        digits = 1 if each == "seconds" else 0
        inside = found["low"] - 1e-6 <= found["took"] <= found["high"] + 1e-6
        shown = f"{found['low']:,.{digits}f} to {found['high']:,.{digits}f}"
        cells.append(f"{shown}: {found['took']:,.{digits}f}{'' if inside else ' **outside**'}")
    return "| " + " | ".join([*cells, f"{row['held']:.2f}"]) + " |"


def main() -> None:
    """Measure all models."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", action="append", choices=list(MODELS))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in given.only or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            rows += measured(name, Path(folder))
    found = [row[each] for row in rows for each in QUANTITIES]
    inside = sum(each["low"] - 1e-6 <= each["took"] <= each["high"] + 1e-6 for each in found)
    least = min(row["held"] for row in rows)
    print(f"{inside} of {len(found)} ranges hold what the run took; the least share held is {least:.2f}")
    if given.output:
        given.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
