"""Whether pairs and settings fit a model, and what a run was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.pairs.source import pairs_hash

if TYPE_CHECKING:
    from leakage_tasks.pairs import Pair
    from leakage_tasks.training.prompt.settings import PromptSettings

SAMPLED = 64
"""Values of each weight that the model's hash is of, at most."""


def check_fit(model: Any, settings: PromptSettings, training: Sequence[Pair], validation: Sequence[Pair]) -> None:
    """Raise OptionError or TargetError unless ``model`` can be tuned on these pairs with these settings."""
    if any(weight.dtype == torch.float16 for weight in model.parameters()):
        raise TargetError(
            f"{type(model).__name__} is in float16, whose range gradients leave: load it in float32 or bfloat16 (dtype)"
        )
    for split, pairs in (("training", training), ("validation", validation)):
        if not pairs:
            raise OptionError(f"the {split} split is empty: give more pairs, or data that has such a split")
        for pair in pairs:
            _check_pair(pair, split, settings.length, vocabulary_of(model), context_of(model))
    if beyond := [token for token in settings.init_tokens if not 0 <= token < vocabulary_of(model)]:
        raise OptionError(f"init_tokens: token {beyond[0]} is not among the model's {vocabulary_of(model)}: correct it")


def vocabulary_of(model: Any) -> int:
    """Tokens the model knows."""
    rows = int(model.get_input_embeddings().weight.shape[0])
    return min(rows, getattr(model.config.get_text_config(), "vocab_size", rows))


def context_of(model: Any) -> int | None:
    """Places the model reads at most, or None where it does not say."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def _check_pair(pair: Pair, split: str, prompt: int, vocabulary: int, context: int | None) -> None:
    named = f"{split} pair {pair.id}"
    if not pair.suffix:
        raise OptionError(f"{named}: its suffix is empty: give a suffix length of 1 or more")
    tokens = (*pair.prefix, *pair.suffix)
    if min(tokens) < 0 or max(tokens) >= vocabulary:
        strange = next(token for token in tokens if not 0 <= token < vocabulary)
        raise OptionError(
            f"{named}: token id {strange} is not among the model's {vocabulary} (0 to {vocabulary - 1}): give data in "
            "the tokens of this model's tokenizer"
        )
    if context is not None and prompt + len(tokens) > context:
        raise OptionError(
            f"{named}: a prompt of {prompt}, prefix of {len(pair.prefix)} and suffix of {len(pair.suffix)} are "
            f"{prompt + len(tokens)} places, the model's context has {context}: use a shorter prompt or shorter pairs"
        )


def run_of(
    model: Any, settings: PromptSettings, training: Sequence[Pair], validation: Sequence[Pair]
) -> dict[str, Any]:
    """What decides a run, as JSON holds it.

    ``settings``, the weights' ``dtype``, and hashes of ``model``, ``training`` and ``validation``.
    """
    return {
        "settings": settings.record(),
        "model": model_hash(model),
        "dtype": ", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in model.parameters()})),
        "training": pairs_hash(training),
        "validation": pairs_hash(validation),
    }


def model_hash(model: Any) -> str:
    """SHA-256 over names, shapes and 64 evenly spread values of every weight (all, if it has fewer), in bfloat16.

    So it is the same for float32 weights and for those rounded to bfloat16. Training changes nearly all values, so the
    few tell models apart; hashing billions would take minutes.
    """
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        flat = weight.detach().reshape(-1)
        taken = min(SAMPLED, len(flat))
        places = torch.arange(taken, device=flat.device) * len(flat) // max(1, taken)
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(flat[places].to(torch.bfloat16).view(torch.int16).cpu().numpy().tobytes())
    return digest.hexdigest()


def comparable(model: Any) -> bool:
    """Whether :func:`model_hash` of ``model`` can be told from those of other models: no float16, nothing quantized."""
    kinds = {(weight.dtype, weight.device.type == "meta") for weight in model.parameters()}
    quantized = getattr(model, "is_quantized", False) or getattr(model.config, "quantization_config", None)
    return not quantized and kinds <= {(torch.float32, False), (torch.bfloat16, False)}
