"""Masked language models from folders and hubs: what cannot be scored is refused in one line, before anything is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.loading import read_config, read_model, unreadable
from leakage_tasks.targets.classifier.config import room_of
from leakage_tasks.targets.classifier.loading import (
    check_dtype,
    check_max_length,
    check_vocabulary,
    exceeds,
    tokenizer_of,
    warn_of_half,
)
from leakage_tasks.targets.masked.target import MaskedTarget


def load_masked(
    pretrained: Any,
    *,
    tokenizer: Any = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str | torch.dtype = "auto",
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    max_batch_size: int | None = None,
    max_length: int | None = None,
) -> MaskedTarget:
    """A masked language model and its tokenizer, by folder, hub name or as objects, as a target on ``device``.

    ``batch_size`` counts masked rows of full length, None lets the target choose; either way up to ``max_batch_size``.
    Weights come from safetensors, or from a file that ``torch.load`` takes with ``weights_only``. Raises TargetError
    for a model without a trained masked-language head, or that cannot be loaded, a tokenizer that does not fit it or
    has no mask token, and OptionError for an argument that does not fit.
    """
    check_dtype(dtype)
    passed: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": bool(trust_remote_code)}
    given = isinstance(pretrained, str | Path)
    name = pretrained if given else type(pretrained).__name__
    config = read_config(pretrained, **passed) if given else pretrained.config
    spoken = tokenizer_of(pretrained, tokenizer, **passed)
    model = _model(pretrained, config, dtype, **passed) if given else pretrained
    named = tokenizer is None or isinstance(tokenizer, str | Path)
    _check_mask(spoken, str(tokenizer or name) if named else type(tokenizer).__name__)
    check_vocabulary(model, spoken, str(tokenizer or name))
    check_max_length(max_length, room_of(model, None))
    warn_of_half(model, name)
    model.to(device)
    target = MaskedTarget(model, spoken, device=device, batch_size=batch_size, max_length=max_length)
    if exceeds(target, max_batch_size):
        target = MaskedTarget(model, spoken, device=device, batch_size=max_batch_size, max_length=max_length)
    return target


def _model(pretrained: str | Path, config: Any, dtype: Any, *, revision: str, trust_remote_code: bool) -> Any:
    from transformers import AutoModelForMaskedLM

    def failure(reason: str) -> TargetError:
        if "Unrecognized configuration class" not in reason:
            return unreadable("model", pretrained, reason)
        return TargetError(
            f"{pretrained}: a {config.model_type} model, for which transformers has no masked language model: use "
            "--model hf for one that writes, or give one of BERT's kind"
        )

    passed: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    model, missing = read_model(AutoModelForMaskedLM, pretrained, config=config, dtype=dtype, failure=failure, **passed)
    if missing:
        raise TargetError(
            f"{pretrained}: no trained masked-language head ({missing[0]} is not in its weights): give a model saved "
            "with its head (of ELECTRA the generator); --model classifier-scorer takes text classifiers"
        )
    return model


def _check_mask(tokenizer: Any, name: str) -> None:
    if tokenizer.mask_token_id is None:
        raise TargetError(
            f"{name}: the tokenizer has no mask token: give it its mask_token, or name the one the model was trained "
            "with, tokenizer=…"
        )
