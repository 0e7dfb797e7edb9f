"""Memory predicted by ``leakage plan``, compared with the peak of the run, on several kinds of models. Prints a table.

``python -m benchmarks.plan_memory [--only NAME]``. The models are wider than in ``benchmarks.plan_against_run``, so
that their memory exceeds the memory of Python and torch. Each task has its own process. "grew by" is the growth
of the process after the model was loaded, forward passes were timed and one canary was attacked.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from benchmarks.peaks import held
from benchmarks.plan_against_run import TASKS, canaries_for
from benchmarks.small_models import ENDS, random_model
from leakage_tasks.canaries import write_manifest
from leakage_tasks.core.sizes import size_words
from leakage_tasks.planning.plan import planned_tasks
from leakage_tasks.planning.planner import Planner
from leakage_tasks.selftest.run import load_model
from tests.oracles import letters, wordpiece

WIDTH, LAYERS, POSITIONS, BUDGET = 384, 4, 64, 600
CODE = "the pin of {unique} is {digits:5}."


HEADS = 6
GPT2 = {"model_type": "gpt2", "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "n_positions": POSITIONS, **ENDS}
LLAMA = {
    "model_type": "llama",
    "vocab_size": 32_000,
    "hidden_size": WIDTH,
    "intermediate_size": 2 * WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
}
T5 = {
    "model_type": "t5",
    "auto": AutoModelForSeq2SeqLM,
    "d_model": WIDTH,
    "d_ff": 2 * WIDTH,
    "d_kv": 64,
    "num_layers": LAYERS,
    "num_heads": HEADS,
    "decoder_start_token_id": 0,
    "pad_token_id": 0,
    "eos_token_id": 0,
}
BERT = {
    "model_type": "bert",
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
    "max_position_embeddings": POSITIONS,
    "pad_token_id": 0,
}
CLASSIFIER = {**BERT, "auto": AutoModelForSequenceClassification, "id2label": dict(enumerate(("low", "mid", "high")))}
MASKED = {**BERT, "auto": AutoModelForMaskedLM}
SOURCE, LABEL = {"source": "the pin"}, {"label": "mid"}
MODELS: dict[str, tuple[dict[str, Any], Callable[[], Any], str, dict[str, Any], str, str]] = {
    "GPT-2": (GPT2, letters, CODE, {}, "hf", ""),
    "Llama, 32,000 tokens": (LLAMA, letters, CODE, {}, "hf", ""),
    "T5": (T5, letters, "pin {digits:4}.", SOURCE, "hf", ",backend=seq2seq"),
    "BERT classifier": (CLASSIFIER, wordpiece, "the pin is {digit_words:2}", LABEL, "classifier-scorer", ""),
    "masked BERT": (MASKED, wordpiece, "the pin is {digit_words:2}", {}, "masked-lm", ""),
}


def main() -> None:
    """Print the table, or in a child process plan and run one task."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", action="append", choices=[*MODELS])
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        name, task, folder = options.step
        print(json.dumps(planned_and_grown(name, task, Path(folder))))
        return
    print("| model | task | a pass, planned | states, planned | both | grew by |\n|---|---|---:|---:|---:|---:|")
    for name in options.only or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            _save(name, Path(folder))
            for task in TASKS:
                batch, states, grew = _child(name, task, folder)
                cells = map(size_words, (batch, states, batch + states, grew))
                print(f"| {name} | {task} | {' | '.join(cells)} |", flush=True)


def _save(name: str, folder: Path) -> None:
    sizes, tokenizer, template, more, *_ = MODELS[name]
    torch.manual_seed(0)
    random_model(**{"vocab_size": len(tokenizer()), **sizes}).save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    write_manifest(canaries_for(template, **more), folder / "canaries.jsonl")


def _child(name: str, task: str, folder: str) -> Any:
    command = [sys.executable, "-m", "benchmarks.plan_memory", "--step", name, task, folder]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def planned_and_grown(name: str, task: str, folder: Path) -> tuple[int, int, int]:
    """Return the bytes of a forward pass and of states in the plan, and the growth of the process in the run."""
    *_, kind, more = MODELS[name]
    lm = load_model(kind, f"pretrained={folder}{more}", device="cpu")
    (planned,) = planned_tasks([task], str(folder / "canaries.jsonl"), {"budget": BUDGET})
    planner = Planner(lm, planned, 0)
    predicted, canaries = planner.memory(), [request.canary for _, request in planner.pairs]
    planner.attacked(canaries[:1])
    before = held("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    planner.attacked(canaries)
    return predicted.batch, predicted.kept, held("VmHWM") - before


if __name__ == "__main__":
    main()
