"""What a text classifier's config and tokenizer say: its classes, its room, its padding."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from leakage_tasks.core.errors import TargetError


def room_of(model: Any, tokenizer: Any) -> int | None:
    """Tokens a model can read, special ones included; None where neither it nor its tokenizer says."""
    embeddings = getattr(model.config, "max_position_embeddings", None) or getattr(model.config, "n_positions", None)
    # RoBERTa's kind counts positions from after the padding token's number.
    table = next((m for name, m in model.named_modules() if name.endswith("position_embeddings")), None)
    unused = getattr(table, "padding_idx", None)
    lost = 0 if unused is None else int(unused) + 1
    room = embeddings - lost if embeddings else None
    own = getattr(tokenizer, "model_max_length", None)
    # XLNet's kind says -1 for any number.
    known = [size for size in (room, own) if size and 0 < size < 10**9]
    return min(known) if known else None


def config_names(config: Any) -> list[str]:
    """The classes' names in a model's config, in order."""
    return [str(config.id2label[place]) for place in range(config.num_labels)]


def check_labels(labels: Sequence[str], config: Any) -> None:
    """Raise TargetError unless ``labels`` name the classes of a model that gives a text one of them."""
    if config.num_labels < 2:
        raise TargetError("the model has a single output, a regression head: use a classifier with two labels or more")
    if getattr(config, "problem_type", None) == "multi_label_classification":
        raise TargetError(
            "the model gives each label a probability of its own (multi-label): use one with one label a text"
        )
    if len(labels) != config.num_labels or len(set(labels)) < len(labels):
        raise TargetError(
            f"{len(labels)} label names, {len(set(labels))} distinct, for a model of {config.num_labels} classes: "
            "name each class once, in the model's order"
        )


def reads_token_types(model: Any, tokenizer: Any) -> bool:
    """Whether the model was trained on the token types its tokenizer gives, which of a single text must all be 0."""
    types = tokenizer(["a"]).get("token_type_ids", [[]])[0]
    if any(types):
        raise TargetError(
            f"the tokenizer ({type(tokenizer).__name__}) marks single texts with several token types, which is not "
            "supported: use a model of BERT's or GPT's kind"
        )
    return bool(types) and "token_type_ids" in inspect.signature(model.forward).parameters


def padding_of(model: Any, tokenizer: Any) -> int:
    """The padding token; a model that has none (GPT-2's kind) pads with the token that ends a text."""
    for token in (tokenizer.pad_token_id, model.config.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            if model.config.pad_token_id is None:
                model.config.pad_token_id = token
            return int(token)
    return 0
