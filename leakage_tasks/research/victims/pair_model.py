"""Small causal models from scratch, and how to train them cheaply on the device at hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.training.rows import check_sizes, seeded

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FAMILIES = ("gpt-neox", "gpt2")


def fresh_causal(
    family: str, vocabulary: int, end: int, *, layers: int, hidden: int, heads: int, positions: int, seed: int
) -> PreTrainedModel:
    """A model of ``family`` with the weights ``seed`` draws: no dropout, tied embeddings, feed-forward 4·``hidden``.

    ``end`` is the id of the token that starts, ends and pads. The caller's random state is left alone. Raises
    OptionError on another family and on sizes that do not fit together.
    """
    check_sizes(layers=layers, hidden=hidden, heads=heads, positions=positions)
    if family not in FAMILIES:
        raise OptionError(f"family is {family!r}: choose from {', '.join(FAMILIES)}")
    if hidden % (2 * heads):
        raise OptionError(f"hidden is {hidden} and heads {heads}: give a hidden size that twice the heads divide")
    shared = {"vocab_size": vocabulary, "bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
    make = _gpt2 if family == "gpt2" else _gpt_neox
    with seeded(seed, torch.device("cpu")):
        return make(layers, hidden, heads, positions, shared)


@contextmanager
def plain_attention(model: PreTrainedModel, device: torch.device) -> Iterator[None]:
    """On a CPU, attention as plain products inside: over so few tokens the fused one's gradient is slower."""
    fused = model.config._attn_implementation
    if device.type == "cpu":
        model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(fused)


def has_bf16(device: torch.device) -> bool:
    """Whether ``device`` has instructions for bfloat16 products; older PyTorch cannot tell of a CPU."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in ("avx512_bf16", "amx_bf16", "sve_bf16"))


def _gpt2(layers: int, hidden: int, heads: int, positions: int, shared: dict[str, Any]) -> PreTrainedModel:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes: dict[str, Any] = {"n_positions": positions, "n_embd": hidden, "n_layer": layers, "n_head": heads}
    return GPT2LMHeadModel(GPT2Config(**sizes, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, **shared))


def _gpt_neox(layers: int, hidden: int, heads: int, positions: int, shared: dict[str, Any]) -> PreTrainedModel:
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        max_position_embeddings=positions,
        hidden_size=hidden,
        intermediate_size=4 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        # Most of a small model is its embeddings: one table is learnt faster than two.
        tie_word_embeddings=True,
        **shared,
    )
    return GPTNeoXForCausalLM(config)
