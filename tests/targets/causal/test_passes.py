"""Steps of several states in one pass, each against plain `transformers` on the whole texts."""

import copy
import logging
import math
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from leakage_tasks.core.log import log
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.planning.meter import metered
from leakage_tasks.targets import CausalTarget
from leakage_tasks.targets.causal.asked import Step
from leakage_tasks.targets.causal.own_attention import NAME, NotPlainAttention, attending
from leakage_tasks.targets.causal.passes import CHECKED, Passes
from leakage_tasks.targets.causal.questions import STEP_SPLITTER, extend_all
from leakage_tasks.targets.causal.shared_blocks import BatchLayout
from tests.oracles import letters

V = len(letters())
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LONG = {"max_position_embeddings": 128}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8, **SIZES, **LONG}
MIXED = ["sliding_attention", "full_attention"]
MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=128)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(vocab_size=V, num_key_value_heads=2, **SIZES, **LONG)),
    "neox": lambda: GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=V, **SIZES, **LONG)),
    "opt": lambda: OPTForCausalLM(
        OPTConfig(
            vocab_size=V,
            hidden_size=32,
            ffn_dim=64,
            num_hidden_layers=2,
            word_embed_proj_dim=32,
            num_attention_heads=4,
            **LONG,
        )
    ),
    "bloom": lambda: BloomForCausalLM(BloomConfig(vocab_size=V, hidden_size=32, n_layer=2, n_head=4)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(vocab_size=V, sliding_window=9, **GROUPED)),
    "mistral 60": lambda: MistralForCausalLM(MistralConfig(vocab_size=V, sliding_window=60, **GROUPED)),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(vocab_size=V, sliding_window=12, **GROUPED)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(vocab_size=V, sliding_window=2, layer_types=MIXED, **GROUPED)),
    "gpt_oss": lambda: GptOssForCausalLM(
        GptOssConfig(
            vocab_size=V,
            sliding_window=20,
            num_local_experts=4,
            num_experts_per_tok=2,
            rope_parameters={"rope_type": "default", "rope_theta": 1e4},
            **GROUPED,
        )
    ),
    "mamba": lambda: MambaForCausalLM(MambaConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=4)),
    "lstm": lambda: CharLSTMForCausalLM(CharLSTMConfig(vocab_size=V, hidden_size=16, num_layers=2)),
}
BEFORE = ("the pin of anna is ", "a", "the very long pin of bob who is old is ", "the pin of carl is ")
ROWS = (20, 3, 1, 9)
SHARING = ("gpt2", "llama", "neox", "opt", "mistral", "mistral 60", "gemma2", "gemma3", "gpt_oss")


@cache
def model_of(name):
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def one_by_one(steps):
    return [extend_all([step])[0] for step in steps]


def in_parts(steps):
    """The first two rows of all together, then what is left of each."""
    first, rest = ([STEP_SPLITTER.cut(step, rows) for step in steps] for rows in (slice(0, 2), slice(2, None)))
    left = [place for place, step in enumerate(rest) if len(step.tokens)]
    answers = [[answer] for answer in extend_all(first)]
    for place, answer in zip(left, one_by_one([rest[place] for place in left]), strict=True):
        answers[place].append(answer)
    return [STEP_SPLITTER.join(step, parts) for step, parts in zip(steps, answers, strict=True)]


def stepped(target, depths, answered=extend_all):
    """Costs of next tokens after random texts, and the texts; prefix i is made ``depths[i]`` tokens longer."""
    random, columns = np.random.default_rng(0), np.arange(V)
    prefixes = [target.encode([text])[0] for text in BEFORE]
    states = [target.start(prefix, columns)[0] for prefix in prefixes]
    texts = [[target._with_prefix_token(prefix)] * count for prefix, count in zip(prefixes, ROWS, strict=True)]
    costs = [None] * len(BEFORE)
    for depth in range(max(depths)):
        steps = []
        going = [place for place, most in enumerate(depths) if depth < most]
        for place in going:
            tokens = random.integers(5, V, ROWS[place])
            rows = np.zeros(ROWS[place], dtype=np.int64) if depth == 0 else np.arange(ROWS[place])
            zero = np.zeros(ROWS[place], dtype=np.int64)
            texts[place] = [[*text, int(token)] for text, token in zip(texts[place], tokens, strict=True)]
            steps.append(Step(target, [states[place]], zero, rows, tokens, columns))
        for place, (state, found) in zip(going, answered(steps), strict=True):
            states[place], costs[place] = state, found
    return costs, texts


def direct(model, texts):
    with torch.no_grad():
        logits = torch.stack([model(torch.tensor([text])).logits[0, -1] for text in texts])
    return (logits.double().log_softmax(-1) / -np.log(2)).numpy()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("depths", [(3, 3, 3, 3), (1, 4, 2, 3)])
def test_a_shared_pass_is_the_model_itself(name, depths):
    costs, texts = stepped(CausalTarget(model_of(name), letters()), depths)
    for found, own in zip(costs, texts, strict=True):
        assert np.allclose(found, direct(model_of(name), own), atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_a_state_alone_is_the_model_itself(name):
    costs, texts = stepped(CausalTarget(model_of(name), letters()), (3, 3, 3, 3), one_by_one)
    for found, own in zip(costs, texts, strict=True):
        assert np.allclose(found, direct(model_of(name), own), atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("depths", [(3, 3, 3, 3), (1, 4, 2, 3)])
def test_a_step_in_parts_is_the_model_itself(name, depths):
    costs, texts = stepped(CausalTarget(model_of(name), letters()), depths, in_parts)
    for found, own in zip(costs, texts, strict=True):
        assert np.allclose(found, direct(model_of(name), own), atol=1e-4)


@pytest.mark.parametrize("name", SHARING)
def test_no_prefix_is_copied_where_attention_is_plain(name, monkeypatch):
    target = CausalTarget(model_of(name), letters())
    for answered in (extend_all, one_by_one):
        stepped(target, (2, 2, 2, 2), answered)
    monkeypatch.setattr("leakage_tasks.targets.causal.cache.RowState.whole", None)
    stepped(target, (3, 2, 2, 1))


@pytest.mark.parametrize(("copies", "proving"), [(math.inf, CHECKED), (CHECKED, CHECKED), (3.5, 3), (0, 2)])
def test_a_way_is_proven_by_a_few_rows_of_a_state_as_far_as_copies_of_its_prefix_fit(copies, proving):
    target = CausalTarget(model_of("gpt2"), letters())
    columns, rows = np.arange(V), 50
    state, _, _ = target.start(target.encode([BEFORE[0]])[0], columns)
    target.passes._copied = lambda: copies * state.prefix_bytes
    read = []
    for _ in range(2):
        with metered([target.model]) as count:
            zeros = np.zeros(rows, dtype=np.int64)
            target.extend([state], zeros, zeros, np.arange(5, 5 + rows) % V, columns)
        read.append(count.rows)
    assert read == [rows + proving, rows]


def test_a_way_that_is_wrong_steps_aside(monkeypatch):
    monkeypatch.setattr(
        "leakage_tasks.targets.causal.shared_prefix.SharedBatch.attend",
        lambda batch, query, key, value, scaling: query.transpose(1, 2) * 0.0,
    )
    costs, texts = stepped(CausalTarget(model_of("llama"), letters()), (3, 3, 3, 3))
    for found, own in zip(costs, texts, strict=True):
        assert np.allclose(found, direct(model_of("llama"), own), atol=1e-4)


@pytest.mark.parametrize("name", ["mistral", "gpt_oss"])
def test_a_window_that_is_not_told_of_is_found(name, monkeypatch):
    monkeypatch.setattr("leakage_tasks.targets.causal.reader.windows_of", lambda config: (5, 5))
    target = CausalTarget(model_of(name), letters())
    costs, texts = stepped(target, (3, 3, 3, 3), one_by_one)
    for found, own in zip(costs, texts, strict=True):
        assert np.allclose(found, direct(model_of(name), own), atol=1e-4)
    assert not target.passes.shares


def test_what_torch_s_attention_takes_no_account_of_is_not_either():
    """Versions of transformers let it read a model whose scores should be kept small, and it does not keep them so."""
    model, query = copy.deepcopy(model_of("gemma2")), torch.zeros(3, 4, 1, 8)
    model.config._attn_implementation_internal = "sdpa"
    with attending(model, SimpleNamespace(width=1, window=None)), pytest.raises(NotPlainAttention, match="softcap"):
        ALL_ATTENTION_FUNCTIONS[NAME](None, query, query, query, None, softcap=50.0)


def test_each_window_that_texts_are_longer_than_is_proven():
    passes = Passes(None, model_of("gpt2"), False, lambda: 0.0, (9, None, 60), (9, 60))
    assert [passes.beyond(length) for length in (9, 10, 60, 61)] == [0, 1, 1, 2]


def test_texts_longer_than_a_window_are_proven_once_more(monkeypatch):
    """A mistake that shows beyond the window alone, after steps within it."""
    target, columns, zeros = CausalTarget(model_of("mistral 60"), letters()), np.arange(V), np.zeros(9, dtype=np.int64)
    right = BatchLayout.sight
    monkeypatch.setattr(BatchLayout, "sight", lambda own, blocks, lead, window: right(own, blocks, lead, None))
    for length, shares in ((20, True), (80, False)):
        prefix = [7 + place % 11 for place in range(length)]
        state, _, _ = target.start(prefix, columns)
        _, costs = target.extend([state], zeros, zeros, 5 + np.arange(9), columns)
        whole = [[*target.begun(prefix), 5 + n] for n in range(9)]
        assert np.allclose(costs, direct(target.model, whole), atol=1e-4)
        assert target.passes.shares is shares


def test_why_a_way_steps_aside_is_in_the_debug_log(caplog):
    caplog.set_level(logging.DEBUG, logger=log.name)
    stepped(CausalTarget(model_of("bloom"), letters()), (2, 2, 2, 2))
    assert "a shared pass" in caplog.text


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_the_model_attends_as_before_afterwards(name):
    model = model_of(name)
    before = model.config._attn_implementation
    stepped(CausalTarget(model, letters()), (2, 2, 2, 2))
    assert model.config._attn_implementation == before


def test_rows_beyond_a_pass_are_read_in_several():
    target = CausalTarget(model_of("gpt2"), letters(), batch_size=1, max_length=128)
    target.rows = lambda length: 4
    costs, texts = stepped(target, (3, 3, 3, 3))
    for found, own in zip(costs, texts, strict=True):
        assert np.allclose(found, direct(model_of("gpt2"), own), atol=1e-4)
