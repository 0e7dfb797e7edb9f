"""Each change to a slower kind of pass is one warning with the factor that it costs; passes that agree cause none."""

import logging

import numpy as np
import pytest
import torch

from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.engine import Engine
from leakage_tasks.targets.causal.key_values import Reading
from leakage_tasks.targets.causal.requests import Step, extend_all
from leakage_tasks.targets.causal.shared_context import SharedContextBatch
from leakage_tasks.targets.noise import warn_of_slower
from tests.oracles import letters, tiny_gpt2
from tests.targets.causal.models import target_of

COLUMNS = np.arange(len(letters()))
CONTEXT = "the pin of the long box by the door of the old hall at the end of the long road is "


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "lm_eval.leakage")
    return lambda: [message for message in caplog.messages if "times as long" in message]


def step(target, prefixes=([5, 6, 7], [5, 6, 7, 8, 9], [8, 8])):
    texts = [target.start(list(prefix), COLUMNS)[0] for prefix in prefixes]
    zeros, tokens = np.zeros(4, dtype=np.int64), 5 + np.arange(4)
    extend_all([Step(target, text[zeros], tokens, COLUMNS) for text in texts])


def score(target):
    """Score texts after a long context."""
    target.log_perplexity([CONTEXT + number for number in map(str, range(100, 160))])


def raises(*given, **named):
    raise RuntimeError("an attention of its own")


def test_passes_that_agree_cause_no_warning(said):
    step(CausalTarget(tiny_gpt2(letters()), letters()))
    score(target_of("gpt2"))
    assert said() == []


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_mixed_precision_uses_the_cache(said, name):
    """Rotary embeddings make keys float32, while values have 16 bits."""
    model = target_of(name).model
    for read in (step, score):
        target = CausalTarget(model, letters(), autocast=torch.bfloat16)
        read(target)
        assert target.engine.cached
    assert said() == []


def nothing(batch, query, *rest):
    return query.transpose(1, 2) * 0.0


@pytest.mark.parametrize("attend", [nothing, raises], ids=["other numbers", "an error"])
def test_a_wrong_pass_after_a_context_names_the_copies_that_rows_need(said, monkeypatch, attend):
    monkeypatch.setattr(SharedContextBatch, "attend", attend)
    score(target_of("gpt2"))
    assert said() == [
        f"GPT2LMHeadModel: every row needs its own copy of its context, so these passes take up to {len(CONTEXT) + 3} "
        "times as long; the results are unaffected. Lower budget=… if the run takes too long"
    ]


def no_mask(right):
    def mask(own):
        found = right(own)
        return None if found is None else np.ones_like(found)

    return mask


def no_mask_at_all(right):
    return lambda own: None if right(own) is None else raises()


@pytest.mark.parametrize("wrong", [no_mask, no_mask_at_all], ids=["other numbers", "an error"])
def test_texts_of_several_lengths_that_share_no_pass_name_how_many_passes_there_are(said, monkeypatch, wrong):
    monkeypatch.setattr(Reading, "mask", property(wrong(Reading.mask.fget)))
    step(CausalTarget(tiny_gpt2(letters()), letters()))
    assert len(said()) == 1
    assert "texts of different lengths cannot share a forward pass, so these passes take up to 3" in said()[0]


def test_a_cache_that_is_wrong_names_the_tokens_that_are_read_again(said, monkeypatch):
    monkeypatch.setattr(Engine, "_is_plain", lambda *given: False)
    step(CausalTarget(tiny_gpt2(letters()), letters()), [[5, 6, 7]])
    assert len(said()) == 1
    # The prefix token, three tokens and the next one.
    assert "every text is read again from its first token, so these passes take up to 5 times" in said()[0]


def test_prefixes_of_several_lengths_that_cannot_begin_together_name_how_many_passes_there_are(said, monkeypatch):
    target, right = CausalTarget(tiny_gpt2(letters()), letters()), Engine._first_pass
    monkeypatch.setattr(
        Engine,
        "_first_pass",
        lambda own, texts, sources: raises() if len(set(map(len, texts))) > 1 else right(own, texts, sources),
    )
    for _ in range(2):
        target.engine.begin([[5, 6, 7], [5, 6], [8, 9, 10, 11]])
    assert len(said()) == 1
    assert "texts of different lengths cannot share a forward pass, so these passes take up to 3" in said()[0]


def test_a_factor_is_never_below_one(said):
    warn_of_slower(object(), "it cannot", 0.2)
    assert "up to 1 times as long" in said()[0]
