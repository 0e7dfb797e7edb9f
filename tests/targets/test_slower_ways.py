"""Each fallback to a slower way is one warning with the factor that it costs; what agrees warns of nothing."""

import logging

import numpy as np
import pytest
from leakage_tasks.targets.causal.asked import Step
from leakage_tasks.targets.causal.passes import Passes
from leakage_tasks.targets.causal.questions import extend_all
from leakage_tasks.targets.causal.shared_prefix import SharedBatch

from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.noise import warn_of_slower
from tests.oracles import letters, tiny_gpt2

COLUMNS = np.arange(len(letters()))


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.WARNING, "lm_eval.leakage")
    return lambda: [message for message in caplog.messages if "times as long" in message]


def step(target, prefixes=([5, 6, 7], [5, 6, 7, 8, 9], [8, 8])):
    states = [target.start(list(prefix), COLUMNS)[0] for prefix in prefixes]
    zeros, tokens = np.zeros(4, dtype=np.int64), 5 + np.arange(4)
    extend_all([Step(target, [state], zeros, zeros, tokens, COLUMNS) for state in states])


def test_passes_that_agree_are_not_spoken_of(said):
    step(CausalTarget(tiny_gpt2(letters()), letters()))
    assert said() == []


def test_a_wrong_shared_pass_names_the_copies_that_rows_need_instead(said, monkeypatch):
    right = SharedBatch.positions
    monkeypatch.setattr(SharedBatch, "positions", lambda own: right(own) + 1)
    step(CausalTarget(tiny_gpt2(letters()), letters()))
    assert said() == [
        "GPT2LMHeadModel: every row needs its own copy of its prefix, so these passes take up to 7 times as "
        "long; the results are unaffected. Lower budget=… if the run takes too long"
    ]


def test_prefixes_that_share_no_pass_name_how_many_passes_there_are_instead(said, monkeypatch):
    monkeypatch.setattr(Passes, "_is_plain", lambda own, logits, states, fed: False)
    step(CausalTarget(tiny_gpt2(letters()), letters()))
    assert any(
        "texts with different prefixes cannot share a forward pass, so these passes take up to 3" in each
        for each in said()
    )


def test_beginnings_that_cannot_be_gone_on_from_name_the_tokens_that_are_read_instead(said, monkeypatch):
    from leakage_tasks.targets.causal import beginnings

    right = beginnings.costs_at_once
    monkeypatch.setattr(beginnings, "costs_at_once", lambda *given: right(*given) + 1)
    target = CausalTarget(tiny_gpt2(letters()), letters())
    target.log_perplexity(["the pin of the long box by the door is " + number for number in map(str, range(100, 160))])
    assert len(said()) == 1
    assert "a common prefix of texts cannot be read once, so these passes take up to 22 times" in said()[0]


def raises(*given, **named):
    raise RuntimeError("an attention of its own")


def test_a_shared_pass_that_raises_is_warned_of_like_a_wrong_one(said, monkeypatch):
    monkeypatch.setattr(SharedBatch, "positions", raises)
    step(CausalTarget(tiny_gpt2(letters()), letters()))
    assert ["every row needs its own copy of its prefix" in message for message in said()] == [True]


def test_beginnings_that_raise_are_warned_of_like_wrong_ones(said, monkeypatch):
    from leakage_tasks.targets.causal import beginnings

    monkeypatch.setattr(beginnings, "costs_at_once", raises)
    target = CausalTarget(tiny_gpt2(letters()), letters())
    target.log_perplexity(["the pin of the long box by the door is " + number for number in map(str, range(100, 160))])
    assert ["a common prefix of texts cannot be read once" in message for message in said()] == [True]


def test_prefixes_of_several_lengths_that_cannot_be_read_together_name_how_many_passes_there_are(said, monkeypatch):
    target = CausalTarget(tiny_gpt2(letters()), letters())
    together = target.read_together
    monkeypatch.setattr(
        target, "read_together", lambda rows, *rest: raises() if len(set(map(len, rows))) > 1 else together(rows, *rest)
    )
    for _ in range(2):
        target.read_first([[5, 6, 7], [5, 6], [8, 9, 10, 11]])
    assert [
        "texts of different lengths cannot share a forward pass, so these passes take up to 3" in each
        for each in said()
    ] == [True]


def test_a_factor_is_never_below_one(said):
    warn_of_slower(object(), "it cannot", 0.2)
    assert "up to 1 times as long" in said()[0]
