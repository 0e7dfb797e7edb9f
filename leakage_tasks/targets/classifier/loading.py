"""Classifiers from folders and hubs: what cannot be scored is refused in one line, before anything is scored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.log import warn_once
from leakage_tasks.models.loading import read_config, read_model, read_tokenizer, unreadable
from leakage_tasks.targets.classifier.config import config_names, room_of
from leakage_tasks.targets.classifier.label_names import Labels, read_labels
from leakage_tasks.targets.classifier.target import ClassifierTarget


def load_classifier(
    pretrained: Any,
    *,
    tokenizer: Any = None,
    labels: Labels | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    dtype: str | torch.dtype = "auto",
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
    max_batch_size: int | None = None,
    max_length: int | None = None,
    reference: ClassifierTarget | None = None,
) -> ClassifierTarget:
    """A sequence classifier and its tokenizer, by folder, hub name or as objects, as a target on ``device``.

    ``labels`` is for :func:`~leakage_tasks.targets.classifier.label_names.read_labels`; ``batch_size`` counts texts of
    full length, None lets the target choose; either way up to ``max_batch_size``. Weights come from safetensors, or
    from a file that ``torch.load`` takes with ``weights_only``. Raises TargetError for a model that is no trained
    classifier with one label a text, or that cannot be loaded, and OptionError for an argument that does not fit it.
    """
    check_dtype(dtype)
    passed: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": bool(trust_remote_code)}
    given = isinstance(pretrained, str | Path)
    config = read_config(pretrained, **passed) if given else pretrained.config
    names = None if labels is None else read_labels(labels, config.num_labels)
    spoken = tokenizer_of(pretrained, tokenizer, **passed)
    model = _model(pretrained, config, dtype, **passed) if given else pretrained
    check_vocabulary(model, spoken, str(tokenizer or pretrained))
    _settle_padding(model, spoken, str(tokenizer or pretrained))
    check_max_length(max_length, room_of(model, None))
    model.to(device)
    name = pretrained if given else type(model).__name__
    warn_of_half(model, name)
    if reference is not None and names is not None and reference.labels == tuple(config_names(model.config)):
        reference.rename(names)
    settings: dict[str, Any] = {"device": device, "max_length": max_length, "reference": reference}
    target = ClassifierTarget(model, spoken, names, batch_size=batch_size, **settings)
    _check_reference(target)
    if exceeds(target, max_batch_size):
        target = ClassifierTarget(model, spoken, names, batch_size=max_batch_size, **settings)
    return target


def exceeds(target: Any, most: Any) -> bool:
    """Whether a batch of a target's would hold more than ``most`` texts of full length (None: any number may).

    Raises OptionError for what is no number of texts.
    """
    if most is None:
        return False
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise OptionError(f"max_batch_size={most!r}: expected a number from 1: correct it or leave it out")
    return int(target.batch(target.max_length or 1)) > most


def tokenizer_of(pretrained: Any, tokenizer: Any, *, revision: str, trust_remote_code: bool) -> Any:
    """The tokenizer given, or the one named, at its main revision, or else the model's own.

    Raises TargetError where it cannot be loaded, OptionError where neither it nor the model is named.
    """
    if tokenizer is not None:
        named = isinstance(tokenizer, str | Path)
        return read_tokenizer(tokenizer, trust_remote_code=trust_remote_code) if named else tokenizer
    if not isinstance(pretrained, str | Path):
        raise OptionError("a model in memory comes without its tokenizer: pass tokenizer= too")
    return read_tokenizer(pretrained, revision=revision, trust_remote_code=trust_remote_code)


def _model(pretrained: str | Path, config: Any, dtype: Any, *, revision: str, trust_remote_code: bool) -> Any:
    from transformers import AutoModelForSequenceClassification as Auto

    def failure(reason: str) -> TargetError:
        if "Unrecognized configuration class" not in reason:
            return unreadable("model", pretrained, reason)
        if config.model_type == "nlu-tagger":
            return TargetError(f"{pretrained}: an nlu-tagger, no text classifier: use --model nlu-tagger")
        return TargetError(
            f"{pretrained}: a {config.model_type} model, for which transformers has no sequence classifier: give a "
            "model fine-tuned with AutoModelForSequenceClassification"
        )

    passed: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    model, missing = read_model(Auto, pretrained, config=config, dtype=dtype, failure=failure, **passed)
    if missing:
        raise TargetError(
            f"{pretrained}: no trained sequence classifier ({missing[-1]} is not in its weights): fine-tune it with "
            "AutoModelForSequenceClassification first, or give the folder that was saved after that"
        )
    return model


def _settle_padding(model: Any, tokenizer: Any, name: str) -> None:
    """One padding token for both: models that read a text's last token find it by the padding after it."""
    config = model.config.get_text_config()
    if tokenizer.pad_token_id is None:
        number = config.pad_token_id if config.pad_token_id is not None else tokenizer.eos_token_id
        if number is None:
            raise TargetError(
                f"{name}: the tokenizer has no padding token and none that ends a text: give it a pad_token"
            )
        tokenizer.pad_token = tokenizer.convert_ids_to_tokens(number)
    model.config.pad_token_id = config.pad_token_id = tokenizer.pad_token_id


def check_vocabulary(model: Any, tokenizer: Any, name: str) -> None:
    """Raise TargetError for a tokenizer of more tokens than the model has."""
    known = int(model.get_input_embeddings().weight.shape[0])
    if len(tokenizer) > known:
        raise TargetError(
            f"{name}: the tokenizer has {len(tokenizer)} tokens, the model {known}: name the one it was trained with, "
            "tokenizer=…"
        )


def warn_of_half(model: Any, name: Any) -> None:
    """Say once that a model in 16 bits or fewer cannot tell nearly equal losses apart."""
    if any(parameter.element_size() < 4 for parameter in model.parameters()):
        warn_once(
            f"{name}: scores are computed in {model.dtype}, too coarse to tell nearly equal losses apart: pass "
            "dtype=float32 in --model_args for exact ranks"
        )


def check_dtype(dtype: Any) -> None:
    """Raise OptionError for what names no number format."""
    if (
        not isinstance(dtype, torch.dtype)
        and dtype != "auto"
        and not isinstance(getattr(torch, str(dtype), 0), torch.dtype)
    ):
        raise OptionError(f"dtype={dtype!r}: expected auto, float32, bfloat16 or float16")


def check_max_length(asked: Any, room: int | None) -> None:
    """Raise OptionError for what is no number of tokens, or more than a model has ``room`` for."""
    if asked is None:
        return
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1 or (room is not None and asked > room):
        most = f"up to the model's {room}" if room else "from 1"
        raise OptionError(f"max_length={asked!r}: expected a number of tokens {most}: correct it or leave it out")


def _check_reference(target: ClassifierTarget) -> None:
    other = target.reference
    if other is not None and set(other.labels) != set(target.labels):
        strange = sorted(set(other.labels) ^ set(target.labels))[0]
        raise TargetError(
            f"the reference classifier has other labels than the model ({strange!r} is known to one of them only): use "
            "one trained on the same classes, with the same names in its config"
        )
