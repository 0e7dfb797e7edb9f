"""Canaries that are turns of a chat: the template that TRL puts in the place of one without marks, and other ones."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from datasets import Dataset
from lm_eval.models.huggingface import HFLM

from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import Canary, make_canaries, plant, write_manifest
from leakage_tasks.data.chat import Role, Turn
from leakage_tasks.training.preflight import preflight
from tests.chats import CHATML, chat_model, chat_tokenizer
from tests.tasks.test_canary_tasks import evaluate
from tests.tasks.test_chats import costs_of
from tests.training.preflight.trainers import arguments

TEMPLATES = Path(trl.__file__).parent / "chat_templates"
STYLES = {"qwen2_5": "chatml", "qwen3": "chatml", "llama3": "llama-3"}
"""Templates without marks that TRL has others for, and the style of tokenizer that they are for."""
MADE = make_canaries("The pin of {unique} is {digits:2}.", 2, controls=2, repetitions=[3], seed=1)
CHAT = [{"role": "user", "content": "the pin"}, {"role": "assistant", "content": "Please continue."}]


def planted(folder: Path, role: Role, turn: Turn = "new") -> list[dict[str, Any]]:
    """Chats with the canaries in them, and the record beside."""
    write_manifest(MADE, folder / "c.jsonl")
    (folder / "t.jsonl").write_text((json.dumps({"messages": CHAT}) + "\n") * 8)
    plant(folder / "c.jsonl", folder / "t.jsonl", folder / "p.jsonl", role=role, chat_position=turn)
    return [json.loads(line) for line in (folder / "p.jsonl").read_text().splitlines()]


def tokenizer_of(name: str) -> Any:
    """A tokenizer with a template as it comes with models."""
    found = copy.deepcopy(chat_tokenizer(STYLES[name]))
    found.chat_template = (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")
    return found


def trainer_of(folder: Path, style: str, tokenizer: Any, rows: list[dict[str, Any]], **changed: Any) -> Any:
    config = trl.SFTConfig(**arguments(folder / "out", max_length=None, **changed))
    model = copy.deepcopy(chat_model(style))
    return trl.SFTTrainer(model, config, train_dataset=Dataset.from_list(rows), processing_class=tokenizer)


def rows_as_trained(trainer: Any, canary: Canary) -> Iterator[list[int]]:
    """The tokens of a conversation with each filling of a canary, by the template that the trainer has."""
    for filling in canary.space.enumerate():
        text = canary.space.fill(filling)
        said = [{"role": "user", "content": "Please continue."}, {"role": "assistant", "content": text}]
        how = {"chat_template": trainer.chat_template, "tokenize": True, "return_dict": False}
        yield list(trainer.processing_class.apply_chat_template(said, **how))


@pytest.mark.parametrize("name", STYLES)
@pytest.mark.parametrize(("role", "state"), [("assistant", "in the loss"), ("user", "in the context only")])
def test_copies_are_found_through_the_template_that_trl_puts_in(
    tmp_path: Path, name: str, role: Role, state: str
) -> None:
    rows = planted(tmp_path, role)
    trainer = trainer_of(tmp_path, STYLES[name], tokenizer_of(name), rows, assistant_only_loss=True)
    assert trainer.chat_template not in (None, trainer.processing_class.chat_template)
    found = preflight(trainer, tmp_path / "c.jsonl")
    assert [(each.whole, each.state) for each in found.canaries if each.planted] == [(3, state)] * 2
    assert found.as_in_audit is True
    assert ("no token of the secret is in the loss" in "".join(found.problems())) is (role == "user")


@pytest.mark.parametrize("name", STYLES)
def test_an_audit_asks_in_the_text_that_was_trained_on(tmp_path: Path, name: str) -> None:
    trainer = trainer_of(
        tmp_path, STYLES[name], tokenizer_of(name), planted(tmp_path, "assistant"), assistant_only_loss=True
    )
    lm = HFLM(pretrained=chat_model(STYLES[name]), tokenizer=trainer.processing_class, batch_size=8)
    results = evaluate(lm, ["canary_exposure"], {"canaries": str(tmp_path / "c.jsonl")}, apply_chat_template=True)
    for sample in results["samples"]["canary_exposure"]:
        finding = finding_from_json(sample["resps"][0][0])
        (canary,) = (each for each in MADE if each.id == finding.canary)
        costs = costs_of(STYLES[name], list(rows_as_trained(trainer, canary)))
        own = costs[canary.space.index(canary.secret)]
        assert (finding.rank, finding.method) == (sum(cost <= own + 1e-4 for cost in costs), "exact")


def rendered(rows: list[dict[str, Any]], template: str) -> list[dict[str, Any]]:
    """Rows of text, by a template of the user's own."""
    tokenizer = chat_tokenizer("chatml")
    how = {"chat_template": template, "tokenize": False}
    return [{"text": tokenizer.apply_chat_template(row["messages"], **how)} for row in rows]


@pytest.mark.parametrize(
    ("template", "as_asked"), [(CHATML, True), (CHATML.replace("\n{{ m.content }}", "\nSay: {{ m.content }}"), False)]
)
def test_another_template_than_the_tokenizers_is_a_remark(tmp_path: Path, template: str, as_asked: bool) -> None:
    rows = rendered(planted(tmp_path, "assistant"), template)
    found = preflight(trainer_of(tmp_path, "chatml", chat_tokenizer("chatml"), rows), tmp_path / "c.jsonl")
    assert found.as_in_audit is as_asked
    assert not list(found.problems())
    assert (
        any("is not the output of the tokenizer's own chat template" in line for line in found.remarks())
        is not as_asked
    )


@pytest.mark.parametrize("turn", ["last", "random"])
def test_of_a_turn_with_other_text_nothing_is_said(tmp_path: Path, turn: Turn) -> None:
    rows = planted(tmp_path, "assistant", turn)
    trainer = trainer_of(tmp_path, "chatml", chat_tokenizer("chatml"), rows)
    found = preflight(trainer, tmp_path / "c.jsonl")
    assert [(each.whole, each.state) for each in found.canaries if each.planted] == [(3, "in the loss")] * 2
    assert found.as_in_audit is None


@pytest.mark.parametrize("both", [True, False], ids=["text beside chats", "text elsewhere"])
def test_a_text_trainer_is_not_held_to_the_record_of_a_chat_file(tmp_path: Path, both: bool) -> None:
    planted(tmp_path, "assistant")
    (tmp_path / "t.txt").write_text("a line of the text\n" * 8)
    (tmp_path / "elsewhere").mkdir()
    output = (tmp_path if both else tmp_path / "elsewhere") / "p.txt"
    plant(tmp_path / "c.jsonl", tmp_path / "t.txt", output)
    rows = [{"text": line} for line in output.read_text().splitlines()]
    found = preflight(trainer_of(tmp_path, "chatml", chat_tokenizer("chatml"), rows), tmp_path / "c.jsonl")
    assert [(each.whole, each.state) for each in found.canaries if each.planted] == [(3, "in the loss")] * 2
    assert found.as_in_audit is None
    assert not list(found.remarks())


def test_a_chat_trainer_is_held_to_its_template_beside_a_record_of_a_text_file(tmp_path: Path) -> None:
    rows = planted(tmp_path, "assistant")
    (tmp_path / "t.txt").write_text("a line of the text\n" * 8)
    plant(tmp_path / "c.jsonl", tmp_path / "t.txt", tmp_path / "p.txt")
    other = CHATML.replace("\n{{ m.content }}", "\nSay: {{ m.content }}")
    for template, as_asked in ((CHATML, True), (other, False)):
        trainer = trainer_of(tmp_path, "chatml", chat_tokenizer("chatml"), rendered(rows, template))
        assert preflight(trainer, tmp_path / "c.jsonl").as_in_audit is as_asked


def brute(model: Any, tokenizer: Any, canary: Canary, before: str) -> int:
    """The secret's rank by whole conversations with each filling, one at a time, by `transformers` alone."""
    costs = []
    for filling in canary.space.enumerate():
        said = [{"role": "user", "content": "Please continue."}]
        said.append({"role": "assistant", "content": before + canary.space.fill(filling)})
        ids = torch.tensor([tokenizer.apply_chat_template(said, tokenize=True, return_dict=False)])
        with torch.no_grad():
            logits = model(ids).logits[0, :-1].double().log_softmax(-1)
        costs.append(-float(logits.gather(-1, ids[0, 1:, None]).sum()) / math.log(2))
    own = costs[canary.space.index(canary.secret)]
    return sum(cost <= own + 1e-4 for cost in costs)


@pytest.mark.slow
@pytest.mark.parametrize("turn", ["last", "random"])
def test_trained_in_a_turn_and_asked_about_in_it(tmp_path: Path, turn: Turn) -> None:
    tokenizer, rows = chat_tokenizer("chatml"), planted(tmp_path, "assistant", turn)
    trainer = trainer_of(tmp_path, "chatml", tokenizer, rows, num_train_epochs=4, learning_rate=3e-3)
    assert [each.state for each in preflight(trainer, tmp_path / "c.jsonl").canaries] == ["in the loss"] * 2 + [
        "absent"
    ] * 2
    trainer.train()
    model: Any = trainer.model.eval()
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8)
    for before in ("", "\n"):
        given = {"canaries": str(tmp_path / "c.jsonl"), **({"context": before} if before else {})}
        results = evaluate(lm, ["canary_exposure"], given, apply_chat_template=True)
        found = [finding_from_json(each["resps"][0][0]) for each in results["samples"]["canary_exposure"]]
        ranks = {each.id: brute(model, tokenizer, each, before) for each in MADE}
        assert {each.canary: each.rank for each in found} == ranks
