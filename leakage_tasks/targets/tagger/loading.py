"""NLU taggers from folders and hubs: what is no tagger, or has another's tokenizer, is refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.char_tokenizer import UNKNOWN
from leakage_tasks.models.loading import read_config, read_model
from leakage_tasks.targets.classifier.loading import (
    check_dtype,
    exceeds,
    tokenizer_of,
    warn_of_half,
)
from leakage_tasks.targets.tagger.target import TaggerTarget


def load_tagger(
    pretrained: Any,
    *,
    tokenizer: Any = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str | torch.dtype = "auto",
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    max_batch_size: int | None = None,
) -> TaggerTarget:
    """An NLU tagger and its tokenizer, by folder, hub name or as objects, as a target on ``device``.

    ``batch_size`` counts texts of full length, None lets the target choose; either way up to ``max_batch_size``.
    Weights come from safetensors, or from a file that ``torch.load`` takes with ``weights_only``. Raises TargetError
    for a model that is no trained NLU tagger, that cannot be loaded or that the tokenizer does not fit, and OptionError
    for a missing or unusable argument.
    """
    check_dtype(dtype)
    passed: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": bool(trust_remote_code)}
    given = isinstance(pretrained, str | Path)
    name = pretrained if given else type(pretrained).__name__
    model = _model(pretrained, dtype, **passed) if given else pretrained
    _check_kind(name, getattr(model, "config", None))
    spoken = tokenizer_of(pretrained, tokenizer, **passed)
    _check_words(model, spoken, str(tokenizer or name))
    warn_of_half(model, name)
    model.to(device)
    target = TaggerTarget(model, spoken, device=device, batch_size=batch_size)
    if exceeds(target, max_batch_size):
        target = TaggerTarget(model, spoken, device=device, batch_size=max_batch_size)
    return target


def _model(pretrained: str | Path, dtype: Any, *, revision: str, trust_remote_code: bool) -> Any:
    from leakage_tasks.models import register
    from leakage_tasks.models.nlu_tagger import NLUTagger

    register()
    passed: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    config = read_config(pretrained, **passed)
    _check_kind(pretrained, config)
    model, missing = read_model(NLUTagger, pretrained, config=config, dtype=dtype, **passed)
    if missing:
        raise TargetError(
            f"{pretrained}: no trained NLU tagger ({missing[-1]} is not in its weights): give the folder that was "
            "saved after training"
        )
    return model


def _check_kind(name: Any, config: Any) -> None:
    kind = getattr(config, "model_type", None)
    if kind != "nlu-tagger":
        raise TargetError(
            f"{name}: a {kind} model, no NLU tagger: give the folder that 'leakage train-nlu' wrote, or use --model "
            "classifier-scorer for other text classifiers"
        )


def _check_words(model: Any, tokenizer: Any, name: str) -> None:
    """Raise TargetError unless the tokenizer has a number for each word, as the model has."""
    kind = type(tokenizer.backend_tokenizer.model).__name__ if getattr(tokenizer, "is_fast", False) else "slow"
    if kind != "WordLevel" or UNKNOWN not in tokenizer.get_vocab():
        raise TargetError(
            f"{name}: its tokenizer ({kind}) does not number whole words, of which {UNKNOWN} is one: name the one the "
            "tagger was saved with, tokenizer=…"
        )
    if len(tokenizer) != model.config.vocab_size:
        raise TargetError(
            f"{name}: the tokenizer has {len(tokenizer)} tokens, the model {model.config.vocab_size}: name the one the "
            "tagger was saved with, tokenizer=…"
        )
    if tokenizer.pad_token_id != model.config.pad_token_id:
        raise TargetError(
            f"{name}: the tokenizer's padding is token {tokenizer.pad_token_id}, the model's "
            f"{model.config.pad_token_id}: name the tokenizer the tagger was saved with, tokenizer=…"
        )
