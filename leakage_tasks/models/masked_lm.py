"""The masked language model a classifier was fine-tuned from: loaded, and held against the classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM, PreTrainedModel

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.loading import Failure, read_config, read_model, read_tokenizer

OTHERWISE = "leave head= out and take candidates from generator=causal:MODEL or generator=exhaustive"
GIVE_BASE = "give the model the classifier was fine-tuned from"
STRUCTURE = (
    *("vocab_size", "hidden_size", "embedding_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_dim", "hidden_act", "hidden_activation", "activation", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "norm_eps", "position_embedding_type", "relative_attention", "pos_att_type"),
    *("max_relative_positions", "position_buckets", "relative_attention_num_buckets", "share_att_key", "norm_rel_ebd"),
    *("num_hidden_groups", "inner_group_num", "local_attention", "layer_types", "rope_parameters"),
)
"""What two configurations must agree on for one's weights to mean the same in the other."""


def pretrained_mlm(
    classifier: PreTrainedModel, head: str | Path, *, tokenizer: Any = None, trust_remote_code: bool = False
) -> PreTrainedModel:
    """The masked language model ``head`` as it is, after checking that ``classifier``'s encoder would fit into it.

    Raises TargetError if it would not, if the vocabularies differ, or if ``head`` has no trained head of its own.
    """
    where, passed = f"head={head}", dict[str, Any](trust_remote_code=trust_remote_code)
    failed = _failure(where, "cannot be loaded", "give a model's folder or hub name")
    config = read_config(str(head), failure=failed, **passed)
    _check_structure(classifier.config, config, where)
    check_has_mlm(config, trust_remote_code)
    if tokenizer is not None:
        failed = _failure(where, "its tokenizer cannot be loaded", "save it beside it")
        _check_tokenizers(tokenizer, read_tokenizer(str(head), failure=failed, **passed), where)
    failed = _failure(where, "cannot be loaded", "save it anew as safetensors")
    model, missing = read_model(AutoModelForMaskedLM, str(head), failure=failed, dtype=classifier.dtype, **passed)
    if missing:
        raise TargetError(
            f"{where}: its weights hold no trained masked-language head ({missing[0]} is missing): train one with "
            f"head=train,text=FILE, or {OTHERWISE}"
        )
    found: PreTrainedModel = model.to(classifier.device).eval()
    return found


def _failure(where: str, what: str, remedy: str) -> Failure:
    return lambda reason: TargetError(f"{where}: {what} ({reason}): {remedy}")


def _check_structure(ours: Any, theirs: Any, where: str) -> None:
    if ours.model_type != theirs.model_type:
        raise TargetError(f"{where}: is a {theirs.model_type} model, the classifier a {ours.model_type}: {GIVE_BASE}")
    for name in STRUCTURE:
        mine, other = getattr(ours, name, None), getattr(theirs, name, None)
        if mine != other:
            raise TargetError(f"{where}: its {name} is {other}, the classifier's is {mine}: {GIVE_BASE}")


def check_has_mlm(config: Any, trust_remote_code: bool = False) -> None:
    """Raise TargetError for a configuration of an architecture without masked language model."""
    remote = trust_remote_code and "AutoModelForMaskedLM" in (getattr(config, "auto_map", None) or {})
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING and not remote:
        raise TargetError(f"{config.model_type} models come without masked language model: {OTHERWISE}")


def _check_tokenizers(tokenizer: Any, base: Any, where: str) -> None:
    ours, theirs = tokenizer.get_vocab(), base.get_vocab()
    if ours != theirs:
        word = min(set(ours.items()) ^ set(theirs.items()))[0]
        raise TargetError(
            f"{where}: its tokenizer has another vocabulary ({len(theirs)} tokens, the classifier's {len(ours)}; "
            f"{word!r} is one that differs): {GIVE_BASE}"
        )
    if tokenizer.mask_token != base.mask_token:
        raise TargetError(
            f"{where}: its mask token is {base.mask_token!r}, the classifier's {tokenizer.mask_token!r}: {GIVE_BASE}, "
            "or correct the tokenizer's mask_token"
        )
