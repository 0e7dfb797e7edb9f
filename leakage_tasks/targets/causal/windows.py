"""Sliding windows of a causal model's layers, and text lengths at which its computation changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from leakage_tasks.core.log import log


def windows_of(config: Any) -> tuple[int | None, ...]:
    """Return the sliding window of each layer in tokens, including the current token; None for full attention.

    ``config`` is a transformers configuration. Empty if no layer has a sliding window, if the model's state is more
    than a KV cache, or if its attention is chunked.
    """
    text = config.get_text_config()
    if getattr(text, "attention_chunk_size", None) is not None:
        return ()
    try:
        layers = DynamicCache(config=text).layers
    except Exception as error:  # configurations fail in many ways
        log.debug("the configuration does not give the model's cache layers: %s", error)
        return ()
    if not {type(layer) for layer in layers} <= {DynamicLayer, DynamicSlidingWindowLayer}:
        return ()
    windows = tuple(getattr(layer, "sliding_window", None) for layer in layers)
    return windows if any(window is not None for window in windows) else ()


def turns_of(config: Any, windows: Sequence[int | None]) -> tuple[int, ...]:
    """Return the text lengths above which the model's computation changes: ``windows`` and rotary positions.

    Rotary positions of types ``longrope`` and ``dynamic`` rotate all tokens differently in longer texts.
    """
    text = config.get_text_config()
    rotary = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    turns = {window for window in windows if window is not None}
    if rotary.get("rope_type") in ("longrope", "dynamic"):
        usual = getattr(text, "original_max_position_embeddings", None) or text.max_position_embeddings
        turns.add(int(rotary.get("original_max_position_embeddings") or usual))
    return tuple(sorted(turns))
