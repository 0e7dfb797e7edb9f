"""A LoRA adapter beside its base gives every task of causal models the figures of the two merged, in float32."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model

from leakage_tasks.canaries import make_canaries, write_manifest
from leakage_tasks.harness.run import evaluate as evaluate_tasks
from tests.oracles import letters, tiny_gpt2

TASKS = ("canary_exposure", "canary_extraction", "suffix_extraction", "heldout_bits_per_byte", "label_accuracy")
SENTENCE = "the pin of ann is 123."


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Base, adapter and merged model, and what each task reads."""
    folder = tmp_path_factory.mktemp("models")
    tokenizer, base = letters(), copy.deepcopy(tiny_gpt2(letters()))
    base.save_pretrained(folder / "base")
    torch.manual_seed(1)
    lora = LoraConfig(r=4, lora_alpha=64, task_type="CAUSAL_LM", init_lora_weights=False, target_modules=["c_attn"])
    adapted = get_peft_model(base, lora).eval()
    adapted.save_pretrained(folder / "adapter")
    adapted.merge_and_unload().save_pretrained(folder / "merged")
    for name in ("base", "merged"):
        tokenizer.save_pretrained(folder / name)
    write_manifest(make_canaries("the pin of {unique} is {digits:3}.", 3, seed=2), folder / "canaries.jsonl")
    tokens = tokenizer(SENTENCE * 4, add_special_tokens=False)["input_ids"]
    pairs = [{"prefix": tokens[at : at + 8], "suffix": tokens[at + 8 : at + 12]} for at in range(12)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    (folder / "held.txt").write_text(f"{SENTENCE}\n" * 3)
    rows = [{"text": f"the pin is {n}", "label": "ab"[n % 2]} for n in range(6)]
    (folder / "labels.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def figures(place: Path, task: str, **model: str) -> dict[str, Any]:
    """The task's results, and of its findings the costs."""
    plain = {"split": "all", "samples": 5, "temperature": 1.0, "top_p": 1.0}
    given = {
        "canaries": str(place / "canaries.jsonl"),
        "text": str(place / "held.txt"),
        "suffix_extraction": {"data": str(place / "pairs.jsonl"), **plain},
        "label_accuracy": {"data": str(place / "labels.jsonl")},
    }
    arguments = {"device": "cpu", "dtype": "float32", **{name: str(place / each) for name, each in model.items()}}
    found = evaluate_tasks("hf", [task], given, model_args=arguments)
    row = {name: value for name, value in found["results"][task].items() if isinstance(value, float)}
    costs: list[float] = []
    for sample in found["samples"][task] if task in TASKS[:3] else ():
        finding = json.loads(sample["resps"][0][0])
        costs += [
            finding.get("log_perplexity") or 0.0,
            *(guess["score"] for guess in finding["guesses"] if isinstance(guess, dict)),
        ]
        costs += [view[name] for view in finding.get("views", {}).values() for name in ("own_bits", "p_z_bits")]
    return {"row": row, "costs": costs}


@pytest.mark.parametrize("task", TASKS)
def test_unmerged_is_merged(place: Path, task: str) -> None:
    apart = figures(place, task, pretrained="base", peft="adapter")
    merged = figures(place, task, pretrained="merged")
    base = figures(place, task, pretrained="base")
    assert merged["costs"] == pytest.approx(apart["costs"], abs=1e-3)
    shared = [name for name in merged["row"] if not name.startswith("model_calls")]
    assert shared
    assert [merged["row"][name] for name in shared] == pytest.approx([apart["row"][name] for name in shared], abs=1e-3)
    # The adapter did change the model.
    told = [*base["costs"], *base["row"].values()], [*merged["costs"], *merged["row"].values()]
    assert not np.allclose(*told, atol=1e-2)
