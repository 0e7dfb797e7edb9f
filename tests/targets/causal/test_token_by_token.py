"""Texts read token by token after what they share: each against plain `transformers` on the whole of it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, Lfm2Config, Lfm2ForCausalLM

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal import token_by_token
from leakage_tasks.targets.causal.asked import Texts
from leakage_tasks.targets.causal.cache import bytes_of
from leakage_tasks.targets.causal.passes import CHECKED
from leakage_tasks.targets.causal.questions import score_all
from leakage_tasks.targets.causal.reader import CausalReader
from leakage_tasks.targets.memory_budget import MemoryBudget, memory_within
from tests.oracles import letters
from tests.targets.causal.test_beginnings import BEGINNING, bits_after, texts_of
from tests.targets.causal.test_passes import MODELS, SHARING, SIZES, V, model_of

LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 1, "topk_group": 1}
MORE = {
    "hybrid": lambda: Lfm2ForCausalLM(
        Lfm2Config(vocab_size=V, num_key_value_heads=2, layer_types=["conv", "full_attention"], **SIZES)
    ),
    "latent": lambda: DeepseekV3ForCausalLM(
        DeepseekV3Config(vocab_size=V, first_k_dense_replace=1, **LATENT, **EXPERTS, **SIZES)
    ),
}
"""Layers that remember a little of all beside layers of attention, and keys and values that are kept as one vector."""


@cache
def made(name: str) -> Any:
    if name in MODELS:
        return model_of(name)
    torch.manual_seed(0)
    return MORE[name]().eval()


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_by_token, "PASS_ON_CPU", 0)


def target_of(name: str, **settings: Any) -> CausalTarget:
    """One that does not read several tokens after what texts share."""
    target = CausalTarget(made(name), letters(), **settings)
    target.passes.continues.works = False
    return target


def bits_of(name: str, rows: list[list[int]]) -> FloatArray:
    """Bits of each text but for its first token, by a plain pass over it alone."""
    return np.array([bits_after(made(name), row)[0] for row in rows])


@pytest.mark.parametrize("name", [*MODELS, *MORE])
def test_texts_cost_what_they_cost_alone(name: str) -> None:
    target = target_of(name)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    for _ in ("proven", "known"):
        (found,) = score_all([Texts(target, rows)])
        assert found == pytest.approx(bits_of(name, rows), abs=1e-3)
        assert target.passes.steps_on.works is True


@pytest.mark.parametrize("name", ["lstm", "bloom", "gpt2"])
@pytest.mark.parametrize("at_once", [True, False])
def test_texts_with_one_token_of_their_own_prove_nothing(name: str, at_once: bool) -> None:
    target = CausalTarget(made(name), letters())
    target.passes.continues.works = None if at_once else False
    shared = target.token_rows([BEGINNING])[0]
    for own in ([[7], [8]] * 15, [[7, 8, 9, 10], [7, 7, 8, 8, 9]] * 15):
        rows = [[*shared, *each] for each in own]
        (found,) = score_all([Texts(target, rows)])
        assert found == pytest.approx(bits_of(name, rows), abs=1e-3)


def test_no_more_rows_are_read_at_once_than_memory_holds_with_copies_of_the_prefix() -> None:
    target = target_of("bloom", max_length=60)
    rows = target.token_rows(texts_of(BEGINNING, 0, texts=200))
    read = []
    one_pass = target.one_pass

    def noted(parts: Any) -> Any:
        read.append((sum(len(part.tokens) for part in parts), target.passes.shares))
        return one_pass(parts)

    target.states = MemoryBudget(target.device)
    with memory_within(3 * 400_000), pytest.MonkeyPatch.context() as patch:
        patch.setattr(CausalReader, "one_pass", lambda self, parts: noted(parts))
        score_all([Texts(target, rows)])
    assert max(number for number, shares in read if shares) <= CHECKED
    first = target.start(target.encode([BEGINNING])[0], np.arange(V))[0]
    most = 400_000 / (bytes_of(first.prefix))
    assert 1 < max(number for number, shares in read if not shares) <= most


@pytest.mark.parametrize("name", [name for name in (*MODELS, *MORE) if name not in SHARING])
def test_models_that_cannot_read_several_tokens_come_to_it_by_themselves(name: str) -> None:
    target = CausalTarget(made(name), letters())
    rows = target.token_rows(texts_of(BEGINNING, 0))
    score_all([Texts(target, rows)])
    assert target.passes.continues.works is False
    assert target.passes.steps_on.works is True


def test_what_texts_have_in_common_is_read_once() -> None:
    target = target_of("lstm")
    rows = target.token_rows(texts_of(BEGINNING, 0))
    score_all([Texts(target, rows)])  # what is found out once
    with metered([made("lstm")]) as count:
        score_all([Texts(target, rows)])
    shared = 1 + len(BEGINNING)
    # The last token of a text is not read.
    inner = {tuple(row[:length]) for row in rows for length in range(shared + 1, len(row))}
    assert count.tokens == shared + len(inner)
    assert count.passes == 1 + max(map(len, rows)) - shared - 1


def test_the_order_of_texts_and_their_number_in_a_pass_change_nothing() -> None:
    target, small = target_of("lstm"), target_of("lstm")
    small.pass_size.rows = 3
    rows = target.token_rows(texts_of(BEGINNING, 0))
    (found,) = score_all([Texts(target, rows)])
    (other,) = score_all([Texts(small, rows[::-1])])
    assert other[::-1] == pytest.approx(found, abs=1e-5)


def test_what_is_found_wrong_is_not_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    target, right, calls = target_of("lstm"), CausalReader.one_pass, []

    def off(self: CausalReader, parts: Any) -> Any:
        calls.append(len(parts))
        return [(state, costs + 0.1) for state, costs in right(self, parts)]

    monkeypatch.setattr(CausalReader, "one_pass", off)
    rows = target.token_rows(texts_of(BEGINNING, 0))
    for _ in range(2):
        (found,) = score_all([Texts(target, rows)])
        assert found == pytest.approx(bits_of("lstm", rows), abs=1e-3)
        assert target.passes.steps_on.works is False
        calls.append(0)
    assert calls[-2:] == [0, 0]


def test_where_memory_runs_out_fewer_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target, right = target_of("lstm"), CausalReader.one_pass

    def short(self: CausalReader, parts: Any) -> Any:
        if sum(len(part.tokens) for part in parts) > 7:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return right(self, parts)

    monkeypatch.setattr(CausalReader, "one_pass", short)
    rows = target.token_rows(texts_of(BEGINNING, 0, texts=60))
    (found,) = score_all([Texts(target, rows)])
    assert found == pytest.approx(bits_of("lstm", rows), abs=1e-3)
    assert target.passes.steps_on.works is True


def test_passes_that_save_little_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_by_token, "PASS_ON_CPU", 10**6)
    target = target_of("lstm")
    rows = target.token_rows(texts_of(BEGINNING, 0))
    with metered([made("lstm")]) as count:
        score_all([Texts(target, rows)])
    assert target.passes.steps_on.works is None
    assert count.tokens >= sum(map(len, rows)) - len(rows)
