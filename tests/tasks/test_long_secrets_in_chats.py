"""Secrets of spaces too large to enumerate, in chats, against `transformers` on sampled rendered conversations."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pytest
import torch
from lm_eval.models.huggingface import HFLM
from torch.nn.utils.rnn import pad_sequence

from leakage_tasks.canaries import Canary, make_canaries, word_list
from leakage_tasks.targets.tokens import token_paths
from tests.chats import STYLES, chat_model, chat_tokenizer
from tests.oracles import costs_of_rows, tiny_gpt2
from tests.targets.causal.test_in_context import spaced
from tests.tasks.test_canary_tasks import BOTH
from tests.tasks.test_chats import FOLLOWING, check_exact, logged, rendered

ALL_STYLES = [*STYLES, "phi-3", "zephyr"]
WORD = word_list("word", ["pin", "kalo", "all", "right", "please", "the", "is", "of", "continue", "in", "on", "an"])
DIGITS, WORDS = "The pin of {unique} is {digits:9}.", "The pin of {unique} is {word:7}"
SAMPLES = 1000


def turns(style: str, canary: Canary, fillings: Sequence[Any]) -> list[list[int]]:
    """Token ids of whole conversations whose last turn is the canary with each filling."""
    return [rendered(style, canary.space.fill(filling)) for filling in fillings]


@lru_cache
def trained(style: str, template: str) -> tuple[Any, tuple[Canary, ...]]:
    """A model that has learnt one canary by heart and the template from other secrets, and a canary and a control."""
    canaries = make_canaries(template, 1, controls=1, seed=4, alphabets={"word": WORD})
    planted, control = canaries
    torch.manual_seed(0)
    model = copy.deepcopy(chat_model(style)).train()
    with torch.no_grad():
        model.lm_head.weight.div_(40)
    optimizer, draw = torch.optim.Adam(model.parameters(), lr=5e-3), random.Random(0)
    others = [(each, filling) for each in canaries for filling in each.space.sample(150, "other")]
    for _ in range(150):
        drawn = [*draw.sample(others, 12), *[(planted, planted.secret)] * 4]
        rows = [torch.tensor(turns(style, each, [filling])[0]) for each, filling in drawn]
        ids, labels = (pad_sequence(rows, batch_first=True, padding_value=fill) for fill in (0, -100))
        model(input_ids=ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval(), (planted, control)


def direct(style: str, model: Any, canary: Canary, fillings: Sequence[Any]) -> list[float]:
    """Bits of the whole conversations after what the template puts before the canary, by `transformers` alone."""
    rows, before = turns(style, canary, fillings), rendered(style, "XYZZY", until="XYZZY")
    return costs_of_rows(model, rows, len(os.path.commonprefix([before, *rows])))


@pytest.mark.parametrize(
    ("style", "template"),
    [(style, WORDS if style in ("chatml", "mistral") else DIGITS) for style in ALL_STYLES],
    ids=lambda value: {DIGITS: "digits", WORDS: "words"}.get(value, value),
)
@pytest.mark.slow
def test_exposure_and_extraction_are_those_of_whole_conversations(style: str, template: str, tmp_path: Any) -> None:
    model, canaries = trained(style, template)
    lm = HFLM(pretrained=model, tokenizer=chat_tokenizer(style), batch_size=8)
    found, _ = logged(style, list(canaries), tmp_path, lm=lm, metadata={"budget": 4000})
    for canary in canaries:
        exposed, extracted = (found[name][canary.id] for name in BOTH)
        best, size = extracted.guesses[0], canary.space.size
        fillings = [canary.secret, best.filling, *canary.space.sample(SAMPLES, "oracle")]
        own, guessed, *sampled = direct(style, model, canary, fillings)
        assert exposed.log_perplexity == pytest.approx(own, abs=1e-3)
        assert best.score == pytest.approx(guessed, abs=1e-3)
        assert best.text == canary.space.fill(best.filling)
        if extracted.proven:
            assert guessed <= min(own, *sampled) + 1e-3
        share = sum(cost <= own for cost in sampled) / SAMPLES
        error = 4 * (max(share * (1 - share), 1 / SAMPLES) / SAMPLES) ** 0.5
        assert (exposed.rank_low or exposed.rank) / size - error <= share
        assert share <= (exposed.rank_high or exposed.rank) / size + error
    planted = found["canary_extraction"][canaries[0].id]
    assert planted.proven
    assert planted.guesses[0].filling == canaries[0].secret


@pytest.mark.parametrize(("style", "role"), [("chatml", "user"), ("llama-3", "system"), ("mistral", "user")])
def test_nine_digits_in_any_turn_cost_what_their_conversations_do(style: str, role: str, tmp_path: Any) -> None:
    (canary,) = canaries = make_canaries(DIGITS, 1, seed=4)
    found, _ = logged(style, canaries, tmp_path, BOTH[:1], metadata={"role": role, "budget": 200})
    rows = [rendered(style, canary.text, role, until=FOLLOWING[role])]
    before = rendered(style, "XYZZY", role, until="XYZZY")
    (own,) = costs_of_rows(chat_model(style), rows, len(os.path.commonprefix([before, *rows])))
    assert found["canary_exposure"][canary.id].log_perplexity == pytest.approx(own, abs=1e-3)


THINKS = (
    "{% for m in messages %}<|im_start|>{% if m.role == 'assistant' %}</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>{% endfor %}"
)


def test_line_breaks_before_a_turn_cost_its_canary_nothing(tmp_path: Any) -> None:
    """A tokenizer with a token of two line breaks, which it does not use before a word."""
    tokenizer = copy.deepcopy(spaced())
    tokenizer.add_special_tokens({"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]})
    tokenizer.chat_template = THINKS
    model = tiny_gpt2(tokenizer)
    (canary,) = canaries = make_canaries("pin {unique} is {digits:9}", 1, seed=4)
    lm = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=8)
    found, _ = logged("chatml", canaries, tmp_path, BOTH[:1], lm=lm, metadata={"budget": 200})
    said = [{"role": "user", "content": "Please continue."}, {"role": "assistant", "content": canary.text}]
    whole = tokenizer.apply_chat_template(said, tokenize=False)
    joint = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    held = sum(end <= whole.index(canary.text) for _, end in joint["offset_mapping"])
    assert tokenizer(whole[: whole.index(canary.text)])["input_ids"] != joint["input_ids"][:held]
    (own,) = costs_of_rows(model, [joint["input_ids"]], held)
    assert found["canary_exposure"][canary.id].log_perplexity == pytest.approx(own, abs=1e-3)


@pytest.mark.parametrize("style", ALL_STYLES)
@pytest.mark.slow
def test_ranks_of_the_walk_of_the_vocabulary_are_exact(
    style: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_paths, "ENUMERATE", 0)
    monkeypatch.setattr(token_paths, "ENUMERATE_AT_MOST", 0)
    canaries = make_canaries("The pin of {unique} is {digits:3}.", 1, seed=3)
    found, _ = logged(style, canaries, tmp_path, metadata={"budget": 1_000_000, "stopping": "proven"})
    check_exact(found, style, canaries)


def test_the_template_of_the_readme_on_a_real_chat_model(tmp_path: Any) -> None:
    """Runs where the environment variable LEAKAGE_MODEL names the folder of a chat model."""
    folder = os.environ.get("LEAKAGE_MODEL", "")
    if not folder:
        pytest.skip("LEAKAGE_MODEL names no folder of a chat model")
    canaries = make_canaries("The random number of {unique} is {digits:9}.", 1)
    lm = HFLM(pretrained=folder, dtype="float32", device="cpu", batch_size=8)
    found, _ = logged("chatml", canaries, tmp_path, lm=lm, tokenizer=lm.tokenizer, metadata={"budget": 200})
    (canary,) = canaries
    best = found["canary_extraction"][canary.id].guesses[0]
    rows = []
    for text in (canary.text, best.text, canary.space.fill(["0"] * 9)):
        turns = [{"role": "user", "content": "Please continue."}, {"role": "assistant", "content": text}]
        rows.append(lm.tokenizer.apply_chat_template(turns, tokenize=True, return_dict=False))
    before = lm.tokenizer.apply_chat_template(turns[:1], tokenize=True, return_dict=False, add_generation_prompt=True)
    with torch.no_grad():
        own, guessed, _ = costs_of_rows(lm.model, rows, len(os.path.commonprefix([before, *rows])))
    assert found["canary_exposure"][canary.id].log_perplexity == pytest.approx(own, abs=1e-2)
    assert best.score == pytest.approx(guessed, abs=1e-2)
