"""Canaries that were planted as turns of a chat are watched as such, in TRL's trainer over its own template."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from lm_eval.models.huggingface import HFLM

from leakage_tasks import ExposureCallback
from leakage_tasks.attacks import finding_from_json
from leakage_tasks.canaries import make_canaries, plant, write_manifest
from leakage_tasks.canaries.chat import Chat, template_of
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import LeakageError, OptionError, TargetError
from leakage_tasks.training.callback.target import in_chat
from tests.oracles import letters
from tests.tasks.test_canary_tasks import evaluate
from tests.training.callback.training_runs import looks, model, trainer_of
from tests.training.preflight.trainers import sft, tokenizer

ROLES = ["assistant", "user"]


@pytest.fixture
def planted(tmp_path: Path) -> Any:
    """A manifest, and how its canaries are planted into a handful of chats as whose turn; returns the rows."""
    canaries = make_canaries("the pin of {unique} is {digits:2} ok", 2, controls=2, repetitions=[4], seed=3)
    write_manifest(canaries, tmp_path / "c.jsonl")
    chat = [{"role": "user", "content": "the cat"}, {"role": "assistant", "content": "sat on the mat"}]
    (tmp_path / "t.jsonl").write_text((json.dumps({"messages": chat}) + "\n") * 8)

    def rows(role: str) -> list[Any]:
        plant(tmp_path / "c.jsonl", tmp_path / "t.jsonl", tmp_path / "p.jsonl", role=role)
        return [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]

    return tmp_path / "c.jsonl", canaries, rows


@pytest.mark.parametrize("role", ROLES)
def test_the_last_look_is_what_lm_eval_finds_in_the_chat(tmp_path: Path, planted: Any, role: str) -> None:
    manifest, canaries, rows = planted
    trainer = sft(tmp_path / "run", rows(role), num_train_epochs=2, learning_rate=1e-2, max_length=None)
    ExposureCallback(manifest, share=None).attach(trainer)
    trainer.train()
    lm = HFLM(pretrained=trainer.model.eval(), tokenizer=tokenizer(), batch_size=8)
    results = evaluate(lm, ["canary_exposure"], {"canaries": str(manifest)}, apply_chat_template=True)
    samples = results["samples"]["canary_exposure"]
    found = {each["doc"]["id"]: finding_from_json(each["resps"][0][0]).exposure for each in samples}
    last = looks(trainer)[-1]
    for name, planted_ones in (("exposure_mean", True), ("exposure_controls", False)):
        expected = fmean(found[each.id] for each in canaries if each.planted is planted_ones)
        assert last[f"leakage/{name}"] == pytest.approx(expected, abs=1e-9)
    assert results["configs"]["canary_exposure"]["leakage"]["protocol"]["chat"] == role


def test_told_so_they_are_watched_as_plain_text(tmp_path: Path, planted: Any) -> None:
    manifest, _, rows = planted
    firsts = []
    for chat in (None, False):
        trainer = sft(tmp_path / "run", rows("assistant"), max_steps=1, max_length=None)
        ExposureCallback(manifest, share=None, chat=chat).attach(trainer)
        trainer.train()
        firsts.append(looks(trainer)[0]["leakage/exposure_controls"])
    assert firsts[0] != pytest.approx(firsts[1], abs=1e-6)


def test_without_a_record_of_chats_they_are_turns_of_the_assistant_if_wanted(planted: Any) -> None:
    manifest, canaries, _ = planted
    expected = Chat("assistant").around(template_of(tokenizer()), canaries, Context())
    assert in_chat(manifest, canaries, tokenizer(), Context(), True) == expected
    assert in_chat(manifest, canaries, tokenizer(), Context(), None) == (Context(), canaries)


def test_a_tokenizer_without_a_template_is_one_line(tmp_path: Path, planted: Any) -> None:
    manifest, _, rows = planted
    rows("assistant")
    bare = copy.deepcopy(letters())
    bare.chat_template = None
    trainer = trainer_of(tmp_path, model(), tokenizer=bare)
    ExposureCallback(manifest, chat=True).attach(trainer)
    with pytest.raises(TargetError, match="chat=True, but the tokenizer has no chat template"):
        trainer.train()


@pytest.fixture
def planted_as_two(tmp_path: Path, planted: Any) -> tuple[Path, list[Any]]:
    """Return a manifest that was planted as the turns of two roles, and its canaries."""
    manifest, canaries, _ = planted
    for role in ROLES:
        plant(manifest, tmp_path / "t.jsonl", tmp_path / f"{role}.jsonl", role=role)
    return manifest, canaries


def test_canaries_of_several_roles_are_watched_as_plain_text(planted_as_two: tuple[Path, list[Any]]) -> None:
    manifest, canaries = planted_as_two
    assert in_chat(manifest, canaries, tokenizer(), Context(), False) == (Context(), canaries)


def test_without_a_template_canaries_of_several_roles_are_plain_text(planted_as_two: tuple[Path, list[Any]]) -> None:
    manifest, canaries = planted_as_two
    bare = copy.deepcopy(tokenizer())
    bare.chat_template = None
    assert in_chat(manifest, canaries, bare, Context(), None) == (Context(), canaries)


def test_canaries_of_several_roles_are_an_error_in_a_chat(planted_as_two: tuple[Path, list[Any]]) -> None:
    manifest, canaries = planted_as_two
    with pytest.raises(
        OptionError, match=r"planted as turns of several roles, .*: pass chat=False to ExposureCallback"
    ):
        in_chat(manifest, canaries, tokenizer(), Context(), None)


DROPS = "{% for m in messages %}{{ m['role'] }}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"


@pytest.mark.parametrize(
    ("chat", "said"),
    [
        (None, r"drops the text of the assistant's turn.*chat=False watches them as plain text"),
        (False, "no whole copy in the training data"),
    ],
)
def test_a_template_that_drops_the_turn_is_one_line(tmp_path: Path, planted: Any, chat: bool | None, said: str) -> None:
    manifest, _, rows = planted
    dropping = copy.deepcopy(tokenizer())
    dropping.chat_template = DROPS
    trainer = sft(tmp_path / "run", rows("assistant"), max_steps=1, max_length=None, tokenizer=dropping)
    ExposureCallback(manifest, chat=chat).attach(trainer)
    with pytest.raises(LeakageError, match=f"^ExposureCallback: .*{said}"):
        trainer.train()
