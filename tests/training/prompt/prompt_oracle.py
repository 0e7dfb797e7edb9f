"""Small models and pairs, and a soft prompt's losses computed one pair at a time with `transformers` alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    OPTConfig,
    OPTForCausalLM,
)

from leakage_tasks.pairs import Pair

VOCABULARY, CONTEXT, WIDTH = 40, 48, 16
_SIZES = {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
_COMMON = {"vocab_size": VOCABULARY, "bos_token_id": 0, "eos_token_id": 0, "initializer_range": 0.4}


def _gpt2() -> Any:
    # Dropout is on: tuning must not see it.
    return GPT2LMHeadModel(GPT2Config(n_embd=WIDTH, n_layer=2, n_head=2, n_positions=CONTEXT, **_COMMON))


def _neox() -> Any:
    return GPTNeoXForCausalLM(GPTNeoXConfig(max_position_embeddings=CONTEXT, **_SIZES, **_COMMON))


def _llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(max_position_embeddings=CONTEXT, num_key_value_heads=1, **_SIZES, **_COMMON))


def _mistral() -> Any:
    sizes = _SIZES | {"max_position_embeddings": CONTEXT, "num_key_value_heads": 1, "sliding_window": 4}
    return MistralForCausalLM(MistralConfig(**sizes, **_COMMON))


def _opt() -> Any:
    sizes = {"hidden_size": 2 * WIDTH, "word_embed_proj_dim": WIDTH, "ffn_dim": 32, "num_hidden_layers": 2}
    return OPTForCausalLM(
        OPTConfig(
            num_attention_heads=2,
            max_position_embeddings=CONTEXT,
            init_std=0.4,
            do_layer_norm_before=False,
            **sizes,
            **_COMMON,
        )
    )


MODELS: dict[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "neox": _neox,
    "llama": _llama,
    "mistral": _mistral,
    "opt": _opt,
}


def make_model(name: str = "gpt2", seed: int = 0) -> Any:
    """A random model whose weights are large enough for the prompt to matter."""
    torch.manual_seed(seed)
    return MODELS[name]().eval()


def make_pairs(count: int, seed: int = 0, prefix: int | None = 6, suffix: int | None = 7) -> list[Pair]:
    """Random pairs, of random lengths where None."""
    stream = random.Random(seed)

    def draw(length: int | None) -> tuple[int, ...]:
        return tuple(stream.randrange(VOCABULARY) for _ in range(length or stream.randrange(1, 9)))

    return [Pair(number, draw(prefix), draw(suffix)) for number in range(count)]


def pair_costs(model: Any, prompt: torch.Tensor, pair: Pair) -> torch.Tensor:
    """−ln p of a suffix' tokens behind prompt and prefix: the whole input, all logits, nothing padded or cached."""
    ids = torch.tensor([[*pair.prefix, *pair.suffix]])
    inputs = torch.cat([prompt[None], model.get_input_embeddings()(ids)], dim=1)
    log_probabilities = model(inputs_embeds=inputs).logits[0].log_softmax(-1)
    before = len(prompt) + len(pair.prefix) - 1
    return torch.stack([-log_probabilities[before + place, token] for place, token in enumerate(pair.suffix)])


def pairs_loss(
    model: Any, prompt: torch.Tensor, pairs: Sequence[Pair], alpha: float, hardest: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Equations 1, 2 and 3 in nats, mean over the pairs."""
    mle, smoothing = [], []
    for pair in pairs:
        costs = pair_costs(model, prompt, pair)
        top = sorted(costs, key=lambda cost: cost.item(), reverse=True)[:hardest]
        mle.append(sum(costs) / len(costs))
        smoothing.append(sum(top) / len(top) if top else costs.sum() * 0)
    means = [sum(each) / len(pairs) for each in (mle, smoothing)]
    return means[0], means[1], means[0] + alpha * means[1]
