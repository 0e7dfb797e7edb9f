"""Rows of prompts and answers with canaries: TRL's trainers take them, and audits ask where they were planted."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from datasets import Dataset
from lm_eval.models.huggingface import HFLM
from transformers import Trainer

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries, plant, write_manifest
from leakage_tasks.canaries.sidecar import read_sidecar, sidecar_path
from leakage_tasks.training.preflight import preflight
from tests.chats import chat_model, chat_tokenizer
from tests.tasks.test_canary_tasks import evaluate
from tests.tasks.test_chats import costs_of
from tests.training.preflight.trainers import arguments

MADE = make_canaries("The pin of {unique} is {digits:2}.", 2, controls=2, repetitions=[3], seed=1)
Rows = list[dict[str, Any]]


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def answer(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


COMPLETIONS = [{"prompt": f"question {at}\n", "completion": f"answer {at}"} for at in range(6)]
PREFERENCES = [{"prompt": f"question {at}\n", "chosen": f"yes {at}", "rejected": f"no {at}"} for at in range(6)]
CHATS: Rows = [{"prompt": user(row["prompt"]), "completion": answer(row["completion"])} for row in COMPLETIONS]
CHAT_PREFERENCES: Rows = [
    {"prompt": user(row["prompt"]), "chosen": answer(row["chosen"]), "rejected": answer(row["rejected"])}
    for row in PREFERENCES
]
WHOLE_CHATS: Rows = [{name: row["prompt"] + row[name] for name in ("chosen", "rejected")} for row in CHAT_PREFERENCES]


def planted(folder: Path, rows: Rows, **options: Any) -> Rows:
    """The rows with the canaries among them, as ``leakage plant`` writes them."""
    write_manifest(MADE, folder / "c.jsonl")
    (folder / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    plant(folder / "c.jsonl", folder / "t.jsonl", folder / "p.jsonl", **options)
    return [json.loads(line) for line in (folder / "p.jsonl").read_text().splitlines()]


def sft(folder: Path, rows: Rows) -> Trainer:
    """TRL's trainer of completions, with a loss on completions alone."""
    from trl import SFTConfig, SFTTrainer

    config = SFTConfig(**arguments(folder / "out", max_length=None, completion_only_loss=True))
    data, tokenizer = Dataset.from_list(rows), chat_tokenizer("chatml")
    return SFTTrainer(copy.deepcopy(chat_model("chatml")), config, train_dataset=data, processing_class=tokenizer)


def dpo(folder: Path, rows: Rows) -> Trainer:
    """TRL's trainer of preferences."""
    from trl import DPOConfig, DPOTrainer

    config = DPOConfig(**arguments(folder / "out", max_length=None))
    models = {name: copy.deepcopy(chat_model("chatml")) for name in ("model", "ref_model")}
    data, tokenizer = Dataset.from_list(rows), chat_tokenizer("chatml")
    return DPOTrainer(**models, args=config, train_dataset=data, processing_class=tokenizer)


@pytest.mark.parametrize(
    ("made", "rows", "options", "state"),
    [
        (sft, COMPLETIONS, {}, "in the loss"),
        (sft, COMPLETIONS, {"role": "user"}, "in the context only"),
        (sft, COMPLETIONS, {"text_column": "completion", "prompt": "Say it:\n"}, "in the loss"),
        (sft, CHATS, {}, "in the loss"),
        (sft, CHATS, {"role": "user"}, "in the context only"),
        (sft, CHATS, {"role": "system"}, "in the context only"),
        (dpo, PREFERENCES, {}, "in the loss"),
        (dpo, PREFERENCES, {"text_column": "rejected"}, "in the loss"),
        (dpo, PREFERENCES, {"role": "user"}, "in the context only"),
        (dpo, CHAT_PREFERENCES, {}, "in the loss"),
        (dpo, CHAT_PREFERENCES, {"text_column": "rejected"}, "in the loss"),
        (dpo, WHOLE_CHATS, {}, "in the loss"),
    ],
)
def test_a_trainer_takes_the_planted_rows_and_preflight_finds_every_copy(
    tmp_path: Path, made: Callable[[Path, Rows], Trainer], rows: Rows, options: dict[str, Any], state: str
) -> None:
    trainer = made(tmp_path, planted(tmp_path, rows, **options))
    found = preflight(trainer, tmp_path / "c.jsonl")
    assert [(each.whole, each.state) for each in found.canaries if each.planted] == [(3, state)] * 2
    asked_about = rows is not COMPLETIONS and rows is not PREFERENCES or options.get("role") != "user"
    assert found.as_asked is (True if asked_about else None)


def trained_texts(canary: Canary, made: Callable[[Path, Rows], Trainer], folder: Path, rows: Rows) -> list[list[int]]:
    """The tokens that the trainer reads for each filling of a canary in the row that was planted for it."""
    (row, *_) = (row for row in rows if canary.text in json.dumps(row))
    spaces = [canary.space.fill(filling) for filling in canary.space.enumerate()]
    filled = [json.loads(json.dumps(row).replace(canary.text, text)) for text in spaces]
    data = made(folder, filled).train_dataset
    return [each["input_ids"] if "input_ids" in each else each["prompt_ids"] + each["chosen_ids"] for each in data]


@pytest.mark.parametrize(
    ("made", "rows", "is_chat"),
    [(sft, COMPLETIONS, False), (dpo, PREFERENCES, False), (sft, CHATS, True), (dpo, WHOLE_CHATS, True)],
)
def test_ranks_of_an_audit_are_those_of_the_rows_that_were_trained_on(
    tmp_path: Path, made: Callable[[Path, Rows], Trainer], rows: Rows, is_chat: bool
) -> None:
    written = planted(tmp_path, rows, prompt="Say it:\n" if not is_chat else "Say it.")
    record = read_sidecar(sidecar_path(tmp_path / "p.jsonl"))
    assert record is not None
    lm = HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8)
    context = {} if is_chat else {"context": {"start": "none", "before": record.prompt}}
    metadata = {"canaries": str(tmp_path / "c.jsonl")} | context
    results = evaluate(lm, ["canary_exposure"], metadata, apply_chat_template=is_chat)
    for sample in results["samples"]["canary_exposure"]:
        finding = finding_from_json(sample["resps"][0][0])
        (canary,) = (each for each in MADE if each.id == finding.canary)
        if canary.planted:
            costs = costs_of("chatml", trained_texts(canary, made, tmp_path, written))
            own = costs[canary.space.index(canary.secret)]
            assert (finding.rank, finding.method) == (sum(cost <= own + 1e-4 for cost in costs), "exact")
