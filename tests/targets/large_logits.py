"""Small models whose logits are as large as those of real ones, so that 16 bits round them as coarsely."""

import copy
from functools import cache

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from tests.oracles import letters

SIZES = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4}


@cache
def _in_float32(scale: float) -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(letters()),
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.2,
        **SIZES,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(scale)
    return model


def large_logits(dtype: torch.dtype = torch.float32, scale: float = 4.0) -> LlamaForCausalLM:
    """Return a Llama of four layers, whose logits reach 10 times ``scale`` / 2, in ``dtype``."""
    return copy.deepcopy(_in_float32(scale)).to(dtype)
