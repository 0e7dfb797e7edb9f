"""Small models of many kinds, and plain `transformers` passes to compare a target with."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BloomConfig,
    BloomForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
)

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.targets import CausalTarget
from tests.oracles import letters

V = len(letters())
COLUMNS = np.arange(V)
SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LONG = {"max_position_embeddings": 192}
GROUPED = {"num_key_value_heads": 2, "head_dim": 8, **SIZES, **LONG}
MIXED = ["sliding_attention", "full_attention"]
LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
EXPERTS = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "n_group": 1, "topk_group": 1}
OPT = {"ffn_dim": 64, "word_embed_proj_dim": 32, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
OSS = {"num_local_experts": 4, "num_experts_per_tok": 2}
ROTARY = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}
HYBRID = {"num_key_value_heads": 2, "layer_types": ["conv", "full_attention"], **SIZES, **LONG}
MAKERS = {
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=192)),
    "llama": lambda: LlamaForCausalLM(LlamaConfig(vocab_size=V, num_key_value_heads=2, **SIZES, **LONG)),
    "opt": lambda: OPTForCausalLM(OPTConfig(vocab_size=V, **OPT, **LONG)),
    "bloom": lambda: BloomForCausalLM(BloomConfig(vocab_size=V, hidden_size=32, n_layer=2, n_head=4)),
    "mistral": lambda: MistralForCausalLM(MistralConfig(vocab_size=V, sliding_window=9, **GROUPED)),
    "mistral 90": lambda: MistralForCausalLM(MistralConfig(vocab_size=V, sliding_window=90, **GROUPED)),
    "gemma2": lambda: Gemma2ForCausalLM(Gemma2Config(vocab_size=V, sliding_window=12, **GROUPED)),
    "gemma3": lambda: Gemma3ForCausalLM(Gemma3TextConfig(vocab_size=V, sliding_window=2, layer_types=MIXED, **GROUPED)),
    "gpt_oss": lambda: GptOssForCausalLM(GptOssConfig(vocab_size=V, sliding_window=20, **OSS, **ROTARY, **GROUPED)),
    "latent": lambda: DeepseekV3ForCausalLM(
        DeepseekV3Config(vocab_size=V, first_k_dense_replace=1, **LATENT, **EXPERTS, **SIZES, **LONG)
    ),
    "hybrid": lambda: Lfm2ForCausalLM(Lfm2Config(vocab_size=V, **HYBRID)),
    "mamba": lambda: MambaForCausalLM(MambaConfig(vocab_size=V, hidden_size=32, num_hidden_layers=2, state_size=4)),
    "lstm": lambda: CharLSTMForCausalLM(CharLSTMConfig(vocab_size=V, hidden_size=16, num_layers=2)),
}
ATTENTION = ("gpt2", "llama", "opt", "bloom", "mistral", "gemma3", "gpt_oss", "latent")
"""Models whose state is keys and values alone."""
SHARING = ("gpt2", "llama", "opt", "mistral", "gemma2", "gemma3", "gpt_oss")
"""Models whose attention can be computed after a context that is stored once."""
OTHERS = ("hybrid", "mamba", "lstm")
"""Models with states of other kinds."""
MODELS = (*ATTENTION, *OTHERS)


@cache
def model_of(name: str) -> Any:
    torch.manual_seed(0)
    model = MAKERS[name]().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def target_of(name: str, **settings: Any) -> CausalTarget:
    """A target that pads without limit, as on a GPU."""
    target = CausalTarget(model_of(name), letters(), **settings)
    target.most_padding = math.inf
    return target


def limit_rows(monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, most: int, place: int = 1) -> list[int]:
    """Let memory run out in calls whose argument at ``place`` has more than ``most`` rows; their numbers are noted."""
    right, refused = getattr(owner, method), []

    def scarce(*given: Any, **named: Any) -> Any:
        if len(given[place]) > most:
            refused.append(len(given[place]))
            raise torch.OutOfMemoryError("CUDA out of memory")
        return right(*given, **named)

    monkeypatch.setattr(owner, method, scarce)
    return refused


def bits_after(model: Any, row: list[int], first: int = 1) -> tuple[float, FloatArray]:
    """Costs in bits of a text without its first tokens, and of each next token ``[V]``, by one plain pass over it.

    ``model`` may be a name of :data:`MAKERS`.
    """
    costs = _costs(model, tuple(row))
    own = costs[:-1].gather(-1, torch.tensor(row[1:])[:, None])[first - 1 :]
    return float(own.sum()), costs[-1].numpy()


@lru_cache(maxsize=10_000)
def _costs(model: Any, row: tuple[int, ...]) -> torch.Tensor:
    plain = model_of(model) if isinstance(model, str) else model
    with torch.no_grad():
        return plain(input_ids=torch.tensor([row])).logits[0].double().log_softmax(-1) / -math.log(2)


def next_costs(model: Any, rows: list[list[int]]) -> FloatArray:
    """Costs in bits of each next token after each text, ``[n, V]``, by plain passes."""
    return np.stack([bits_after(model, row)[1] for row in rows])
