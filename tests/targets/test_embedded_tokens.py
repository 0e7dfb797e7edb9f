"""Tokens without an embedding are found before a pass, by name; tokens that no text uses change nothing."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import lm_eval
import pytest
import torch
from lm_eval.models.dummy import DummyLM
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

from leakage_tasks.attacks import finding_from_json, run_attack
from leakage_tasks.canaries import Canary, make_canaries, word_list, write_manifest
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import MissingEmbeddingError, TargetError
from leakage_tasks.targets.embedded_tokens import embedded_tokens
from leakage_tasks.targets.harness.target import HarnessTarget, as_target
from tests.chats import chat_model, chat_tokenizer
from tests.oracles import merging, tiny_gpt2
from tests.report.saved import pairs_file
from tests.tasks.test_canary_tasks import evaluate
from tests.translators import random_model, tokenizer_of

EXTRA = "<|extra|>"
SAID = r"the token '<\|extra\|>' \(id {0}\) has no embedding, as the model has {0} .*resize_token_embeddings"
PLAIN = make_canaries("the pin of {unique} is {digits:2}", 3, controls=2)
USED = make_canaries(f"the {EXTRA} pin of {{unique}} is {{digits:2}}", 3, controls=2)


def with_extra(tokenizer: Any) -> Any:
    """A copy of a tokenizer with one token more."""
    found = copy.deepcopy(tokenizer)
    found.add_tokens([EXTRA], special_tokens=True)
    return found


def model_of(batch_size: int = 4) -> HFLM:
    """A causal model whose tokenizer has a token more than the model."""
    return HFLM(pretrained=copy.deepcopy(tiny_gpt2(merging())), tokenizer=with_extra(merging()), batch_size=batch_size)


def run(lm: HFLM, folder: Path, canaries: list[Canary], task: str = "canary_exposure", **given: Any) -> Any:
    """What the harness gives for a task on these canaries."""
    metadata = given.pop("metadata", {})
    write_manifest(canaries, folder / "canaries.jsonl")
    return evaluate(lm, [task], {"canaries": str(folder / "canaries.jsonl"), **metadata}, **given)


@pytest.mark.parametrize("task", ["canary_exposure", "canary_extraction"])
def test_a_canary_that_uses_the_token_is_one_line_before_any_pass(task: str, tmp_path: Path) -> None:
    lm, passes = model_of(), []
    lm.model.register_forward_pre_hook(lambda *arguments: passes.append(1))
    with pytest.raises(MissingEmbeddingError, match=f"^canary 'canary-0': {SAID.format(len(merging()))}"):
        run(lm, tmp_path, USED, task)
    assert not passes


def test_a_context_that_uses_the_token_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingEmbeddingError, match=r"^context=<\|extra\|>: the token"):
        run(model_of(), tmp_path, PLAIN, metadata={"context": EXTRA})


def test_a_prefix_token_without_an_embedding_is_named(tmp_path: Path) -> None:
    lm = model_of()
    lm.custom_prefix_token_id = len(merging())
    with pytest.raises(MissingEmbeddingError, match=r"^the token before each text: the token '<\|extra\|>'"):
        run(lm, tmp_path, PLAIN)


def test_a_token_that_is_not_used_changes_no_figure(tmp_path: Path) -> None:
    usual = HFLM(pretrained=tiny_gpt2(merging()), tokenizer=merging(), batch_size=4)
    samples = [run(lm, tmp_path, PLAIN)["samples"]["canary_exposure"] for lm in (model_of(), usual)]
    found, expected = ([finding_from_json(each["resps"][0][0]) for each in own] for own in samples)
    assert [each.rank for each in found] == [each.rank for each in expected]
    assert [each.log_perplexity for each in found] == [each.log_perplexity for each in expected]


def test_of_a_natural_canary_neither_token_nor_id_is_shown(tmp_path: Path) -> None:
    natural = replace(USED[0], kind="natural", seed=None)
    with pytest.raises(MissingEmbeddingError, match="one of its tokens has no embedding") as raised:
        run(model_of(), tmp_path, [natural])
    assert "extra" not in str(raised.value)
    assert f"id {len(merging())}" not in str(raised.value)


def test_another_filling_that_uses_the_token_is_one_line() -> None:
    words = word_list("tags", ["ab", "is", EXTRA])
    canary = Canary("c-0", "the {tags} pin", ("ab",), alphabets={"tags": words})
    with pytest.raises(TargetError, match=r"the token '<\|extra\|>'"):
        run_attack("auto", as_target(model_of()), [canary], goal="exposure")


def test_the_plain_way_of_the_harness_finds_it_too() -> None:
    target = HarnessTarget(model_of())
    asked: list[Callable[[], Any]] = [
        lambda: target.log_perplexity(["the pin", f"the {EXTRA}"]),
        lambda: target.complete(f"the {EXTRA}", 2),
        lambda: target.in_context(Context(before=EXTRA), PLAIN[0].space).log_perplexity(["the pin"]),
    ]
    for ask in asked:
        with pytest.raises(MissingEmbeddingError, match=r"the token '<\|extra\|>'"):
            ask()


def test_a_pass_that_nobody_checked_is_stopped_before_it_is_made() -> None:
    lm = model_of()
    embedded_tokens(lm)
    with pytest.raises(MissingEmbeddingError, match=r"the token '<\|extra\|>'"):
        lm.model(torch.tensor([[1, len(merging())]]))


@pytest.mark.parametrize("where", ["template", "source"])
def test_a_translation_model_is_checked_in_its_source_and_target(where: str, tmp_path: Path) -> None:
    lm = HFLM(pretrained=random_model("nllb"), tokenizer=copy.deepcopy(tokenizer_of("nllb")), backend="seq2seq")
    lm.tokenizer.add_tokens([f"<|more{n}|>" for n in range(embedded_tokens(lm).number or 0)])
    lm.tokenizer.add_tokens(["<|last|>"], special_tokens=True)
    template, source = ("<|last|> pin {digits:1}", "le pin") if where == "template" else ("pin {digits:1}", "<|last|>")
    (canary,) = make_canaries(template, 1, source=source)
    with pytest.raises(MissingEmbeddingError, match=r"^canary 'canary-0': the token '<\|last\|>'"):
        run(lm, tmp_path, [canary])


# -- chats --------------------------------------------------------------------------------------------------


def in_template(tokenizer: Any) -> Any:
    """A copy of a chat tokenizer with one token more, which its template uses."""
    found = with_extra(tokenizer)
    found.chat_template = found.chat_template.replace("<|im_start|>", f"<|im_start|>{EXTRA}")
    return found


@pytest.mark.parametrize("task", ["canary_exposure", "suffix_extraction"])
def test_a_chat_template_that_uses_the_token_is_named(task: str, tmp_path: Path) -> None:
    tokenizer = in_template(chat_tokenizer("chatml"))
    lm = HFLM(pretrained=copy.deepcopy(chat_model("chatml")), tokenizer=tokenizer, batch_size=4)
    write_manifest(PLAIN, tmp_path / "canaries.jsonl")
    pairs = {"data": str(pairs_file(tmp_path)), "samples": 2, "split": "all"}
    metadata = {"canaries": str(tmp_path / "canaries.jsonl")} if task == "canary_exposure" else pairs
    with pytest.raises(MissingEmbeddingError, match=f"^the chat template: {SAID.format(len(tokenizer) - 1)}"):
        evaluate(lm, [task], metadata, apply_chat_template=True)


def test_a_pair_that_holds_the_token_is_named_and_its_token_is_not_shown(tmp_path: Path) -> None:
    lm = model_of()
    rows = [[*range(5, 10)], [5, 6, 7, 8, len(merging())]]
    lines = [json.dumps({"prefix": row, "suffix": [10, 11, 12]}) for row in rows]
    (tmp_path / "pairs.jsonl").write_text("\n".join(lines))
    metadata = {"data": str(tmp_path / "pairs.jsonl"), "samples": 2, "split": "all"}
    with pytest.raises(MissingEmbeddingError, match=r"^pair 1: one of its tokens has no embedding"):
        evaluate(lm, ["suffix_extraction"], metadata)


@pytest.mark.skipif("LEAKAGE_MODEL" not in os.environ, reason="LEAKAGE_MODEL names no pretrained chat model")
def test_a_real_chat_model_with_a_token_added_to_its_template(tmp_path: Path) -> None:
    folder = os.environ["LEAKAGE_MODEL"]
    tokenizer = in_template(AutoTokenizer.from_pretrained(folder))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    number = model.get_input_embeddings().num_embeddings
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=4)
    with pytest.raises(MissingEmbeddingError, match=f"^the chat template: {SAID.format(number)}"):
        run(lm, tmp_path, PLAIN, apply_chat_template=True)


def test_the_tokenizer_of_a_model_without_weights_is_not_read() -> None:
    class Remote(DummyLM):
        @property
        def tokenizer(self) -> Any:  # type: ignore[override]
            raise OSError("no network")

    known = embedded_tokens(Remote())
    assert known.complete
    with pytest.raises(TargetError, match="two scores of one text differ"):
        lm_eval.simple_evaluate(model=Remote(), tasks=["canary_exposure"], bootstrap_iters=0)
