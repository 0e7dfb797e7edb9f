"""Accuracy of ``leakage plan`` on six models, and on a real one. Prints a table and writes JSON.

``[LEAKAGE_MODEL=FOLDER] python -m benchmarks.plan_against_run [-o FILE]``. The models are a character LSTM trained on
a text with canaries, a GPT-2, a Llama, a BERT classifier, a masked BERT and a T5; all but the LSTM are untrained. The
real model has learned none of 32 canaries and 100 controls of nine digits. For each task and kind of canary, a row
contains the plan's range from a pilot of five, and the actual cost of all canaries of that kind, counted by hooks on
the model.

A second table is about 300 other pilots per task, whose costs are those of the run: the share whose range of rows
contains the true sum (nominally 0.8), the share whose likely value is within a factor of 1.5 of it, and that share for
pilots of canaries with equal chances, of 5, 8, 10 and 16 of each kind.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from leakage_tasks.canaries import Canary, make_canaries, write_manifest
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan
from leakage_tasks.planning.expected_costs import draw_pilot
from leakage_tasks.planning.pilot import attack_together
from leakage_tasks.planning.plan import planned_tasks
from leakage_tasks.planning.planner import Planner, kind_of
from leakage_tasks.planning.watch import PilotWatch
from leakage_tasks.selftest.run import load_model
from leakage_tasks.stats.totals import Stratum, total_range
from tests.encoders import save_base
from tests.oracles import letters, tiny_bert, tiny_gpt2, wordpiece

TASKS = ("canary_exposure", "canary_extraction")
CANARIES, PILOT, DRAWN, BUDGET = 15, 5, 300, 600
PILOTS = (5, 8, 10, 16)
SECONDS = 600.0
"""Time limit of a pilot, so that it ends on a busy machine too."""
REAL = "real model"
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


def real(folder: Path, canaries: list[Canary]) -> dict[str, Any]:
    """Name the model in LEAKAGE_MODEL."""
    return {"model": "hf", "model_args": f"pretrained={os.environ['LEAKAGE_MODEL']},dtype=bfloat16"}


MODELS: dict[str, tuple[Callable[[Path, list[Canary]], dict[str, Any]], str, dict[str, Any]]] = {
    "LSTM, trained": (lstm, DIGITS, {}),
    "GPT-2": (gpt2, DIGITS, {}),
    "Llama": (llama, DIGITS, {}),
    "BERT classifier": (classifier, "the pin is {digit_words:2}", {"label": "mid"}),
    "masked BERT": (masked, "{unique} pin {letters:1}.", {}),
    "T5": (t5, "pin {digits:4}.", {"source": "the pin"}),
    REAL: (real, "The access code of {unique} is {digits:9}.", {"planted": 32, "controls": 100}),
}


def canaries_for(
    template: str,
    label: str | None = None,
    source: str | None = None,
    planted: int = CANARIES,
    controls: int = CANARIES,
) -> list[Canary]:
    """Make planted canaries and controls."""
    made = make_canaries(template, planted, controls=controls, seed=1, source=source)
    return [dataclasses.replace(canary, label=label) for canary in made]


@dataclass
class Run:
    """The costs of a task's run by canary id, and what its planner knows."""

    planner: Planner
    kinds: list[KindPlan]
    calls: dict[str, float]

    def own(self, kind: KindPlan) -> list[Canary]:
        """Return the canaries of a kind."""
        return [request.canary for _, request in self.planner.pairs if kind_of(request.canary) == kind.kind]

    def pilots(self, number: int, expected: Mapping[str, float]) -> tuple[float, float]:
        """Return the share of other pilots of ``number`` canaries per kind whose range contains the sum of all rows,
        and of those whose likely value is within a factor of 1.5 of it."""
        true, inside, near = sum(self.calls.values()), 0, 0
        for seed in range(DRAWN):
            groups = [self._drawn(kind, number, expected, f"{seed}") for kind in self.kinds]
            low, high = total_range(groups)
            inside += contains(low, high, true)
            near += 1 / 1.5 <= sum(group.likely for group in groups) / true <= 1.5
        return inside / DRAWN, near / DRAWN

    def _drawn(self, kind: KindPlan, number: int, expected: Mapping[str, float], seed: str) -> Stratum:
        own = self.own(kind)
        pilot = draw_pilot(own, number, expected, f"{seed}:{kind.kind}")
        sampled = tuple(self.calls[canary.id] for canary in pilot.canaries)
        chances = tuple(pilot.chances[canary.id] for canary in pilot.canaries if pilot.chances)
        most = max(kind.limits.rows, *self.calls.values())
        return Stratum(len(own), sampled, 1, most, kind.kind, (), chances, pilot.chance_error)


def measured(name: str, folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measure one model; return a row for each task and kind of canary, and one for each task's other pilots."""
    make, template, more = MODELS[name]
    canaries = canaries_for(template, **more)
    manifest = folder / "canaries.jsonl"
    write_manifest(canaries, manifest)
    lm = load_model(**_named(make(folder / "model", canaries)), batch_size="32", device="cpu")
    rows, pilots = [], []
    for planned in planned_tasks(TASKS, str(manifest), {} if name == REAL else {"budget": BUDGET}):
        planner = Planner(lm, planned, PILOT)
        run = Run(planner, planner.kinds(PilotWatch(SECONDS)), {})
        for kind in run.kinds:
            attempt = attack_together(run.own(kind), planner.attacked, planner.modules, 1)
            run.calls |= {each.canary: float(each.model_calls or 0) for each in attempt.findings.values()}
            row: dict[str, Any] = {"model": name, "task": planned.task_name, "attack": kind.attack, "kind": kind.kind}
            for quantity in QUANTITIES:
                estimate, actual = kind.estimate(quantity), getattr(attempt.total, quantity)
                row[quantity] = {"low": estimate.low, "high": estimate.high, "took": actual, "worst": estimate.worst}
            rows.append(row)
            print(line(row), flush=True)
        held, near = run.pilots(PILOT, planner.expected_by(planner.pairs[0][0]))
        equal = {number: run.pilots(number, {})[1] for number in PILOTS if number <= len(canaries) // 2}
        pilots.append({"model": name, "task": planned.task_name, "held": held, "near": near, "near_equal": equal})
    return rows, pilots


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
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Measure all models and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--only", action="append", choices=list(MODELS))
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    pilots: list[dict[str, Any]] = []
    for name in options.only or [name for name in MODELS if name != REAL or "LEAKAGE_MODEL" in os.environ]:
        with tempfile.TemporaryDirectory() as folder:
            made = measured(name, Path(folder))
        rows, pilots = rows + made[0], pilots + made[1]
    estimates = [row[quantity] for row in rows for quantity in QUANTITIES]
    inside = sum(contains(estimate["low"], estimate["high"], estimate["took"]) for estimate in estimates)
    print(f"{inside} of {len(estimates)} ranges contain the actual cost")
    for row in pilots:
        equal = ", ".join(f"{number}: {share:.2f}" for number, share in row["near_equal"].items())
        print(f"| {row['model']} | {row['task']} | {row['held']:.2f} | {row['near']:.2f} | {equal} |")
    if options.output:
        options.output.write_text(json.dumps({"rows": rows, "pilots": pilots}, indent=1) + "\n")


if __name__ == "__main__":
    main()
