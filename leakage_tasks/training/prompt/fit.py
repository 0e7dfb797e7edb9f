"""Checks that pairs and settings fit a model, and the record of a run's inputs."""

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
"""Maximum number of values of each weight in the model's hash."""


def check_fit(model: Any, settings: PromptSettings, training: Sequence[Pair], validation: Sequence[Pair]) -> None:
    """Check that a prompt for ``model`` can be tuned on these pairs with these settings.

    Args:
        model: The causal model.
        settings: Settings of the tuning.
        training: The training pairs.
        validation: The validation pairs.

    Raises:
        TargetError: The model is in float16.
        OptionError: A pair is too long, a split is empty, or a token is not in the vocabulary.
    """
    if any(weight.dtype == torch.float16 for weight in model.parameters()):
        raise TargetError(
            f"{type(model).__name__} is in float16, in which gradients overflow: load it in float32 or bfloat16 (dtype)"
        )
    for split, pairs in (("training", training), ("validation", validation)):
        if not pairs:
            raise OptionError(f"the {split} split is empty: give more pairs, or data that has such a split")
        for pair in pairs:
            _check_pair(pair, split, settings.length, vocabulary_of(model), context_of(model))
    if unknown := [token for token in settings.init_tokens if not 0 <= token < vocabulary_of(model)]:
        raise OptionError(
            f"init_tokens: token {unknown[0]} is not among the model's {vocabulary_of(model)} tokens: correct it"
        )


def vocabulary_of(model: Any) -> int:
    """Return the size of the model's vocabulary."""
    rows = int(model.get_input_embeddings().weight.shape[0])
    return min(rows, getattr(model.config.get_text_config(), "vocab_size", rows))


def context_of(model: Any) -> int | None:
    """Return the maximum number of positions that the model reads; None if unknown."""
    return getattr(model.config.get_text_config(), "max_position_embeddings", None)


def _check_pair(pair: Pair, split: str, prompt: int, vocabulary: int, context: int | None) -> None:
    label = f"{split} pair {pair.id}"
    if not pair.suffix:
        raise OptionError(f"{label}: its suffix is empty: give a suffix length of 1 or more")
    tokens = (*pair.prefix, *pair.suffix)
    if min(tokens) < 0 or max(tokens) >= vocabulary:
        unknown = next(token for token in tokens if not 0 <= token < vocabulary)
        raise OptionError(
            f"{label}: token id {unknown} is not among the model's {vocabulary} (0 to {vocabulary - 1}): give data in "
            "the tokens of this model's tokenizer"
        )
    if context is not None and prompt + len(tokens) > context:
        raise OptionError(
            f"{label}: a prompt of {prompt}, prefix of {len(pair.prefix)} and suffix of {len(pair.suffix)} are "
            f"{prompt + len(tokens)} positions, the model's context has {context}: use a shorter prompt or pairs"
        )


def describe_run(
    model: Any, settings: PromptSettings, training: Sequence[Pair], validation: Sequence[Pair]
) -> dict[str, Any]:
    """Return the inputs that determine a run, as JSON values.

    Args:
        model: The causal model.
        settings: Settings of the tuning.
        training: The training pairs.
        validation: The validation pairs.

    Returns:
        The settings, the weights' ``dtype``, and hashes of ``model``, ``training`` and ``validation``.
    """
    return {
        "settings": settings.record(),
        "model": model_hash(model),
        "dtype": ", ".join(sorted({str(weight.dtype).removeprefix("torch.") for weight in model.parameters()})),
        "training": pairs_hash(training),
        "validation": pairs_hash(validation),
    }


def model_hash(model: Any) -> str:
    """Return a SHA-256 hash over the names, shapes and up to 64 evenly spaced values of every weight, in bfloat16.

    Weights in float32 and weights rounded to bfloat16 have equal hashes. Training changes nearly all values, so the
    sample distinguishes models; hashing billions of values would take minutes.
    """
    digest = hashlib.sha256()
    for name, weight in model.named_parameters():
        flat = weight.detach().reshape(-1)
        count = min(SAMPLED, len(flat))
        indices = torch.arange(count, device=flat.device) * len(flat) // max(1, count)
        digest.update(f"{name} {tuple(weight.shape)}".encode())
        digest.update(flat[indices].to(torch.bfloat16).view(torch.int16).cpu().numpy().tobytes())
    return digest.hexdigest()


def comparable(model: Any) -> bool:
    """Return True if :func:`model_hash` is meaningful for ``model``: no float16 and no quantized weights."""
    kinds = {(weight.dtype, weight.device.type == "meta") for weight in model.parameters()}
    quantized = getattr(model, "is_quantized", False) or getattr(model.config, "quantization_config", None)
    return not quantized and kinds <= {(torch.float32, False), (torch.bfloat16, False)}
