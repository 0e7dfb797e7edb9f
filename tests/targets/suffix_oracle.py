"""Small models for suffix extraction and the direct way of computing what the engine computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPTNeoXConfig, LlamaConfig, MambaConfig, MistralConfig

from leakage_tasks.models.recurrent import CharLSTMConfig, CharLSTMForCausalLM
from leakage_tasks.targets.causal.target import CausalTarget
from leakage_tasks.targets.suffix.causal import SuffixSampler
from tests.oracles import merging, tiny_gpt2

SMALL = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "vocab_size": 400,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "llama": LlamaConfig(**SMALL, num_key_value_heads=1),
    "sliding window": MistralConfig(**SMALL, num_key_value_heads=1, sliding_window=4),
    "gpt-neox": GPTNeoXConfig(**SMALL),
    "mamba": MambaConfig(vocab_size=400, hidden_size=16, num_hidden_layers=2),
}
ARCHITECTURES = ("gpt2", *CONFIGS, "lstm")


def model_of(name: str) -> Any:
    """A random model whose distributions are far from uniform."""
    if name == "gpt2":
        return tiny_gpt2(merging())
    torch.manual_seed(0)
    if name == "lstm":
        model = CharLSTMForCausalLM(CharLSTMConfig(vocab_size=400))
    else:
        model = AutoModelForCausalLM.from_config(CONFIGS[name], trust_remote_code=False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if name != "mamba" else 1.5)
    return model.eval()


def sampler_of(name: str = "gpt2", **settings: Any) -> SuffixSampler:
    """The engine on such a model."""
    return SuffixSampler(CausalTarget(model_of(name), merging(), **settings))


def prefixes_of(count: int, length: int, seed: int = 0) -> list[list[int]]:
    """Random prefixes."""
    return np.random.default_rng(seed).integers(1, 300, (count, length)).tolist()


def direct_logits(model: Any, prefix: list[int], suffixes: Any) -> Any:
    """Logits before each token of each suffix after ``prefix``, ``[n, L, V]``, by one plain pass over whole rows."""
    rows = torch.tensor([[*prefix, *map(int, suffix)] for suffix in suffixes])
    with torch.no_grad():
        return model(rows, use_cache=False).logits[:, len(prefix) - 1 : -1].float()


def bits_of(logits: Any, suffixes: Any) -> Any:
    """Costs in bits ``[n, L]`` of the suffixes' tokens by logits ``[n, L, V]``."""
    tokens = torch.tensor(np.asarray(suffixes))
    return (-logits.double().log_softmax(-1).gather(-1, tokens[..., None])[..., 0] / np.log(2)).numpy()
