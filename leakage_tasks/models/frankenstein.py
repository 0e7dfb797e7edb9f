"""The Frankenstein model: a classifier's encoder with a masked language model's head.

In Mix and Match, section 4.3.1, the classifier gets the head of the base model that it was fine-tuned from, so
that the fine-tuned encoder can fill masks. Base models tie their output matrix to the input embeddings. Here the output
matrix of the base model is kept and untied from the classifier's embeddings, also after saving and loading.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_FOR_MASKED_LM_MAPPING, AutoModelForMaskedLM, PreTrainedModel

from leakage_tasks.core.errors import TargetError
from leakage_tasks.models.bridge import attach_saved
from leakage_tasks.models.loading import Failure, read_config, read_model, read_tokenizer

MARK = "frankenstein"
"""Entry of a saved model's configuration for the origin of its head: one of the next three constants."""
GRAFTED, TRAINED, BRIDGED = "grafted", "trained", "bridged"
REMEDY = "leave head= out and take candidates from generator=causal:MODEL or generator=exhaustive"
GIVE_BASE = "give the model the classifier was fine-tuned from"
STRUCTURE = (
    *("vocab_size", "hidden_size", "embedding_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_dim", "hidden_act", "hidden_activation", "activation", "max_position_embeddings", "type_vocab_size"),
    *("layer_norm_eps", "norm_eps", "position_embedding_type", "relative_attention", "pos_att_type"),
    *("max_relative_positions", "position_buckets", "relative_attention_num_buckets", "share_att_key", "norm_rel_ebd"),
    *("num_hidden_groups", "inner_group_num", "local_attention", "layer_types", "rope_parameters"),
)
"""Entries that two configurations must share so that weights can be moved between the models."""


def graft(
    classifier: PreTrainedModel, head: str | Path, *, tokenizer: Any = None, trust_remote_code: bool = False
) -> PreTrainedModel:
    """Return a model with the classifier's encoder and the head of the masked language model ``head``.

    ``head`` may also be a saved Frankenstein model. Its grafted head is the base model's and fits any classifier of the
    base model; a trained head or bridge is accepted only with the encoder that it was trained on.

    Args:
        classifier: The classifier; it is not changed.
        head: Folder or hub name of a masked language model.
        tokenizer: The classifier's tokenizer. If given, the vocabularies are compared.
        trust_remote_code: Run code that comes with ``head``.

    Returns:
        The masked language model, on the classifier's device.

    Raises:
        TargetError: Encoder and head do not fit, or ``head`` has no trained masked-language head.
    """
    model = pretrained_mlm(classifier, head, tokenizer=tokenizer, trust_remote_code=trust_remote_code)
    mark = getattr(model.config, MARK, None)
    if mark in (TRAINED, BRIDGED) and not _same_encoder(classifier, model):
        part, remedy = ("head", "head=train") if mark == TRAINED else ("bridge", "head=adapter or head=prompt")
        raise TargetError(
            f"head={head}: its {part} was trained on another classifier's encoder, or on this encoder in another "
            f"precision: train it again with {remedy}"
        )
    _untie(model)
    _transplant(classifier, model, f"head={head}")
    if mark == BRIDGED:
        attach_saved(model, str(head))
    return _finished(model, classifier, mark or GRAFTED)


def fresh_head(
    classifier: PreTrainedModel,
    base: str | Path | None = None,
    *,
    tokenizer: Any = None,
    seed: int = 0,
    trust_remote_code: bool = False,
) -> PreTrainedModel:
    """Return a model with the classifier's frozen encoder and an untrained masked-language head.

    Only parameters of the head require gradients.

    Args:
        classifier: The classifier; it is not changed.
        base: Model whose head is the initial head. Without ``base`` the head is initialized at random, with the
            encoder's embeddings as its output matrix.
        tokenizer: The classifier's tokenizer. If given, the vocabularies are compared.
        seed: Random seed of the initial head.
        trust_remote_code: Run code that comes with ``base``.

    Returns:
        The masked language model, on the classifier's device.

    Raises:
        TargetError: See :func:`graft`; also for an architecture without a masked language model.
    """
    if base is not None:
        model = graft(classifier, base, tokenizer=tokenizer, trust_remote_code=trust_remote_code)
    else:
        model = _random_head(classifier, seed)
    model.requires_grad_(True)
    model.base_model.requires_grad_(False)
    setattr(model.config, MARK, TRAINED)
    return model


def is_frankenstein(model: PreTrainedModel) -> bool:
    """Return True if a masked language model is a Frankenstein model, with the encoder of a classifier."""
    return getattr(model.config, MARK, None) is not None


def encoder_state(model: PreTrainedModel) -> dict[str, Tensor]:
    """Return the encoder's weights by name, without poolers, which masked language models do not have."""
    return {name: value for name, value in model.base_model.state_dict().items() if not name.startswith("pooler")}


def pretrained_mlm(
    classifier: PreTrainedModel, head: str | Path, *, tokenizer: Any = None, trust_remote_code: bool = False
) -> PreTrainedModel:
    """Load the masked language model ``head`` and check that it matches ``classifier``.

    Args:
        classifier: The classifier whose encoder must have the structure of ``head``'s encoder.
        head: Folder or hub name of a masked language model.
        tokenizer: The classifier's tokenizer. If given, the vocabularies are compared.
        trust_remote_code: Run code that comes with ``head``.

    Returns:
        The masked language model ``head`` itself, on the classifier's device.

    Raises:
        TargetError: The structures or vocabularies differ, or ``head`` has no trained masked-language head.
    """
    where, passed = f"head={head}", dict[str, Any](trust_remote_code=trust_remote_code)
    failed = _failure(where, "cannot be loaded", "give a model's folder or hub name")
    config = read_config(str(head), failure=failed, **passed)
    _check_structure(classifier.config, config, where)
    check_has_mlm(config, trust_remote_code)
    if tokenizer is not None:
        failed = _failure(where, "its tokenizer cannot be loaded", "save the tokenizer in the model's folder")
        _check_tokenizers(tokenizer, read_tokenizer(str(head), failure=failed, **passed), where)
    failed = _failure(where, "cannot be loaded", "save it again as safetensors")
    model, missing = read_model(AutoModelForMaskedLM, str(head), failure=failed, dtype=classifier.dtype, **passed)
    if missing:
        raise TargetError(
            f"{where}: its weights hold no trained masked-language head ({missing[0]} is missing): train one with "
            f"head=train,text=FILE, or {REMEDY}"
        )
    loaded: PreTrainedModel = model.to(classifier.device).eval()
    return loaded


def _finished(model: PreTrainedModel, classifier: PreTrainedModel, mark: str) -> PreTrainedModel:
    setattr(model.config, MARK, mark)
    marked: Any = model
    return marked.to(classifier.device).eval()


def _random_head(classifier: PreTrainedModel, seed: int) -> PreTrainedModel:
    check_has_mlm(classifier.config)
    config = copy.deepcopy(classifier.config)
    config.tie_word_embeddings = False
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the GPUs too, and fork_rng would not restore them.
        torch.default_generator.manual_seed(seed)
        model = AutoModelForMaskedLM.from_config(config, dtype=classifier.dtype, trust_remote_code=False)
    _untie(model)
    _transplant(classifier, model, "head=train")
    embeddings, matrix = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    if embeddings.shape == matrix.shape:
        matrix.data.copy_(embeddings.detach())
    return _finished(model, classifier, TRAINED)


def _failure(where: str, problem: str, remedy: str) -> Failure:
    return lambda reason: TargetError(f"{where}: {problem} ({reason}): {remedy}")


def _check_structure(ours: Any, theirs: Any, where: str) -> None:
    if ours.model_type != theirs.model_type:
        raise TargetError(f"{where}: is a {theirs.model_type} model, the classifier a {ours.model_type}: {GIVE_BASE}")
    for name in STRUCTURE:
        ours_value, theirs_value = getattr(ours, name, None), getattr(theirs, name, None)
        if ours_value != theirs_value:
            raise TargetError(f"{where}: its {name} is {theirs_value}, the classifier's is {ours_value}: {GIVE_BASE}")


def check_has_mlm(config: Any, trust_remote_code: bool = False) -> None:
    """Raise TargetError if the architecture of a configuration has no masked language model."""
    remote = trust_remote_code and "AutoModelForMaskedLM" in (getattr(config, "auto_map", None) or {})
    if type(config) not in MODEL_FOR_MASKED_LM_MAPPING and not remote:
        raise TargetError(f"{config.model_type} models have no masked language model: {REMEDY}")


def _check_tokenizers(tokenizer: Any, base: Any, where: str) -> None:
    ours, theirs = tokenizer.get_vocab(), base.get_vocab()
    if ours != theirs:
        word = min(set(ours.items()) ^ set(theirs.items()))[0]
        raise TargetError(
            f"{where}: its tokenizer has another vocabulary ({len(theirs)} tokens, the classifier's {len(ours)}; "
            f"{word!r} differs): {GIVE_BASE}"
        )
    if tokenizer.mask_token != base.mask_token:
        raise TargetError(
            f"{where}: its mask token is {base.mask_token!r}, the classifier's {tokenizer.mask_token!r}: {GIVE_BASE}, "
            "or correct the tokenizer's mask_token"
        )


# -- weights ------------------------------------------------------------------------------------------------


def _untie(model: PreTrainedModel) -> None:
    """Give every parameter of the head separate storage, and disable tying when the model is saved and loaded."""
    matrix = getattr(model.get_output_embeddings(), "weight", None)
    if matrix is None or len(matrix) != model.config.vocab_size:
        raise TargetError(
            f"this {model.config.model_type} model's head uses the encoder's embeddings and cannot be separated: "
            f"{REMEDY}"
        )
    seen = {id(parameter) for parameter in model.base_model.parameters()}
    for name, parameter in list(_head_parameters(model)):
        if id(parameter) in seen:
            parent, _, leaf = name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, nn.Parameter(parameter.detach().clone()))
        seen.add(id(parameter))
    for module in model.modules():
        if isinstance(module, PreTrainedModel):
            module.config.tie_word_embeddings = False
            module.all_tied_weights_keys = {}


def _head_parameters(model: PreTrainedModel) -> Iterator[tuple[str, nn.Parameter]]:
    inside = f"{model.base_model_prefix}."
    named = model.named_parameters(remove_duplicate=False)
    return ((name, parameter) for name, parameter in named if not name.startswith(inside))


def _transplant(classifier: PreTrainedModel, model: PreTrainedModel, where: str) -> None:
    new, old = encoder_state(classifier), encoder_state(model)
    for name in sorted(new.keys() | old.keys()):
        shapes = [list(state[name].shape) if name in state else None for state in (old, new)]
        if shapes[0] != shapes[1]:
            raise TargetError(
                f"{where}: its encoder's {name} has shape {shapes[0]}, the classifier's {shapes[1]}: {GIVE_BASE}"
            )
    model.base_model.load_state_dict(new, strict=False)


def _same_encoder(classifier: PreTrainedModel, model: PreTrainedModel) -> bool:
    ours, theirs = encoder_state(classifier), encoder_state(model)
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
