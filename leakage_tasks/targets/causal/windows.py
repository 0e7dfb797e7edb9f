"""How far back the layers of a causal model look, and a cache that keeps more than that."""

from __future__ import annotations

from typing import Any

from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from leakage_tasks.core.log import log


def windows_of(config: Any) -> tuple[int | None, ...]:
    """Of each layer, the tokens that it looks at, its own included; None for one that looks at all.

    ``config`` is a transformers configuration. Empty where no layer has a sliding window, and where a model remembers
    more than keys and values, or looks back in chunks.
    """
    text = config.get_text_config(decoder=True)
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
