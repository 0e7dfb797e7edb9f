"""Masked language models from folders and hubs: what cannot be scored is refused in one line, before anything is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.batches import room_of
from leakage_tasks.targets.loading import ModelSource, check_max_length
from leakage_tasks.targets.masked.target import MaskedTarget


def load_masked(pretrained: Any, *, max_length: int | None = None, **loading: Any) -> MaskedTarget:
    """A masked language model and its tokenizer, by folder, hub name or as objects, as a target.

    ``loading`` is for :class:`~leakage_tasks.targets.loading.ModelSource`; ``batch_size`` counts masked rows of full
    length. Raises TargetError for a model without a trained masked-language head, or that cannot be loaded, a tokenizer
    that does not fit it or has no mask token, and OptionError for an argument that does not fit.
    """
    from transformers import AutoModelForMaskedLM

    source = ModelSource(pretrained, **loading)
    tokenizer = source.read_tokenizer()
    unfit = "masked language model: use --model hf for one that writes, or give one of BERT's kind"
    model, missing = source.read_model(AutoModelForMaskedLM, unfit)
    if missing:
        remedy = (
            "give a model saved with its head (of ELECTRA the generator); --model classifier-scorer takes text "
            "classifiers"
        )
        raise source.untrained("masked-language head", missing[0], remedy)
    _check_mask(tokenizer, source)
    source.check_vocabulary(model, tokenizer)
    check_max_length(max_length, room_of(model, None))
    settings: dict[str, Any] = {"device": source.device, "max_length": max_length}
    return source.target_of(model, lambda size: MaskedTarget(model, tokenizer, batch_size=size, **settings))


def _check_mask(tokenizer: Any, source: ModelSource) -> None:
    if tokenizer.mask_token_id is None:
        named = source.tokenizer is None or isinstance(source.tokenizer, str | Path)
        raise TargetError(
            f"{source.tokenizer_name if named else type(tokenizer).__name__}: the tokenizer has no mask token: give it "
            "its mask_token, or name the one the model was trained with, tokenizer=…"
        )
