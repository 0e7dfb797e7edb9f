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
from leakage_tasks.canaries.context import Context
from leakage_tasks.canaries.sidecar import read_sidecar, sidecar_path
from leakage_tasks.core import log as notices
from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.callback.target import in_chat, live_target
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
    side = options.get("text_column", "chosen") if made is dpo and state == "in the loss" else None
    assert [each.sides for each in found.canaries if each.planted] == [{side: 3} if side else {}] * 2
    asked_about = rows is not COMPLETIONS and rows is not PREFERENCES or options.get("role") != "user"
    assert found.as_in_audit is (True if asked_about else None)


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


SHAREGPT = [
    {"conversations": [{"from": "user", "value": f"q{at}"}, {"from": "assistant", "value": f"a{at}"}]}
    for at in range(6)
]


@pytest.mark.parametrize("role", ["assistant", "user"])
def test_a_trainer_takes_planted_conversations_of_sharegpt(tmp_path: Path, role: str) -> None:
    trainer = sft(tmp_path, planted(tmp_path, SHAREGPT, role=role))
    found = preflight(trainer, tmp_path / "c.jsonl")
    assert [(each.whole, each.state) for each in found.canaries if each.planted] == [(3, "in the loss")] * 2
    assert found.as_in_audit is True


ALPACA = [{"instruction": f"q{at}", "input": "", "output": f"a{at}"} for at in range(6)]


@pytest.mark.parametrize("is_chat", [True, False])
def test_copies_in_rows_of_alpaca_are_found_however_the_trainer_renders_them(tmp_path: Path, is_chat: bool) -> None:
    rows = planted(tmp_path, ALPACA)
    if is_chat:
        rendered: Rows = [{"messages": user(row["instruction"]) + answer(row["output"])} for row in rows]
    else:
        rendered = [
            {"text": f"### Instruction:\n{row['instruction']}\n\n### Response:\n{row['output']}"} for row in rows
        ]
    found = preflight(sft(tmp_path, rendered), tmp_path / "c.jsonl")
    assert [(each.whole, each.state) for each in found.canaries if each.planted] == [(3, "in the loss")] * 2
    assert not any("or the planted prompt" in line for line in found.remarks())


def test_another_prompt_than_the_planted_one_is_remarked(tmp_path: Path) -> None:
    rows = planted(tmp_path, COMPLETIONS)
    changed = [{**row, "prompt": f"Say: {row['prompt']}".replace("continue", "go on")} for row in rows]
    found = preflight(sft(tmp_path, changed), tmp_path / "c.jsonl")
    assert found.as_in_audit is False
    assert any("or the planted prompt, which an audit uses" in line for line in found.remarks())


def test_an_audit_without_the_prompt_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    planted(tmp_path, COMPLETIONS)
    lm = HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8)
    wanted = "planted after a prompt, and this run reads them without it, where they may show less of a leak: pass "
    for context, warned in (({}, True), ({"context": "Please continue.\\n"}, False)):
        caplog.clear()
        notices.warn_once.cache_clear()
        evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")} | context)
        assert (f"{wanted}--metadata context=Please continue.\\n" in caplog.text) is warned


def test_the_callback_looks_after_the_prompt(tmp_path: Path) -> None:
    trainer = sft(tmp_path, planted(tmp_path, COMPLETIONS))
    target = live_target(trainer.model, trainer.processing_class)
    manifest = tmp_path / "c.jsonl"
    found, _ = in_chat(manifest, MADE, target.tokenizer, Context(), None)
    assert found == Context(before="Please continue.\n")
    given, _ = in_chat(manifest, MADE, target.tokenizer, Context(before="x"), None)
    assert given == Context(before="x")


def test_records_of_several_prompts_are_declined(tmp_path: Path) -> None:
    planted(tmp_path, SHAREGPT)
    plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "q.jsonl", prompt="Say it.")
    lm = HFLM(pretrained=chat_model("chatml"), tokenizer=chat_tokenizer("chatml"), batch_size=8)
    with pytest.raises(OptionError, match=r"planted after several prompts \(p.jsonl.leakage.json and q.jsonl.leakage"):
        evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")}, apply_chat_template=True)
