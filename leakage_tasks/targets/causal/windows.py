"""How far back the layers of a causal model look, and from how many tokens on it reads otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from leakage_tasks.core.log import log


def windows_of(config: Any) -> tuple[int | None, ...]:
    """Of each layer, the tokens that it looks at, its own included; None for one that looks at all.

    ``config`` is a transformers configuration. Empty where no layer has a sliding window, and where a model remembers
    more than keys and values, or looks back in chunks.
    """
    text = config.get_text_config()
    if getattr(text, "attention_chunk_size", None) is not None:
        return ()
    try:
        layers = DynamicCache(config=text).layers
    except Exception as error:  # each model's configuration has its own ways
        log.debug("the model's cache cannot be told from its configuration: %s", error)
        return ()
    if not {type(layer) for layer in layers} <= {DynamicLayer, DynamicSlidingWindowLayer}:
        return ()
    windows = tuple(getattr(layer, "sliding_window", None) for layer in layers)
    return windows if any(window is not None for window in windows) else ()


def turns_of(config: Any, windows: Sequence[int | None]) -> tuple[int, ...]:
    """The numbers of tokens beyond which the model reads otherwise: each of ``windows``, and where rotations change.

    With rotary positions of the kinds ``longrope`` and ``dynamic`` all tokens are rotated otherwise in longer texts.
    """
    text = config.get_text_config()
    rotary = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    turns = {window for window in windows if window is not None}
    if rotary.get("rope_type") in ("longrope", "dynamic"):
        usual = getattr(text, "original_max_position_embeddings", None) or text.max_position_embeddings
        turns.add(int(rotary.get("original_max_position_embeddings") or usual))
    return tuple(sorted(turns))
