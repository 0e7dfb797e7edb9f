"""A custom attention function that transformers' models call for batches with shared prefixes."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

NAME = "leakage_shared_prefix"
ODD = ("head_mask", "position_bias", "alibi")
"""Arguments of other kinds of attention, which this function does not support."""

_current = threading.local()


class NotPlainAttention(Exception):
    """The model's attention depends on more inputs than this function supports."""


@dataclass(frozen=True)
class Scores:
    """Attention scores from products of queries and keys: scaled, then limited to ±``softcap`` (as in Gemma 2)."""

    scaling: float
    softcap: float | None = None

    def __call__(self, products: Tensor) -> Tensor:
        """Return the scores of products whose queries are already scaled."""
        return products if self.softcap is None else (products / self.softcap).tanh() * self.softcap


class Attends(Protocol):
    """A batch that is being read."""

    @property
    def width(self) -> int:
        """Number of tokens read after each row."""

    @property
    def window(self) -> int | None:
        """Sliding window in tokens of the layer whose attention is called next; None for full attention."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores, sinks: Tensor | None) -> Tensor:
        """Return attention outputs ``[n, width, heads, D]`` for queries ``[n, heads, width, D]``.

        ``sinks`` ``[heads]`` are scores of attention sinks, which have no value (as in gpt-oss).
        """


def _attention(
    _: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float | None = None, **rest: Any
) -> tuple[Tensor, None]:
    """Compute attention with transformers' interface, for the batch that is being read."""
    odd = [name for name in (*ODD, *_current.unheard) if rest.get(name) is not None]
    batch: Attends = _current.batch
    # A sliding window that is missing in the configuration, or applied by a mask, would be ignored.
    odd += ["sliding_window"] if rest.get("sliding_window") != batch.window else []
    if odd or attention_mask is not None or query.shape[2] != batch.width:
        raise NotPlainAttention(", ".join(odd) or "masked")
    scores = Scores(query.shape[-1] ** -0.5 if scaling is None else scaling, rest.get("softcap"))
    return batch.attend(query, key, value, scores, rest.get("s_aux")), None


@contextlib.contextmanager
def attending(model: Any, batch: Attends) -> Iterator[None]:
    """Use the attention of ``batch`` in ``model`` within the block."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)
    configs = {id(config): config for config in map(_config_of, model.modules()) if config is not None}
    before = [(config, config._attn_implementation) for config in configs.values()]
    _current.batch = batch
    # PyTorch's SDPA receives these arguments and ignores them.
    _current.unheard = ("softcap", "s_aux") if any(usual == "sdpa" for _, usual in before) else ()
    try:
        for config, _ in before:
            config._attn_implementation_internal = NAME
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation
        _current.batch = None


def _config_of(module: Any) -> Any:
    config = getattr(module, "config", None)
    return config if hasattr(config, "_attn_implementation_internal") else None


def takes_positions(model: Any) -> bool:
    """Return True if a model's forward pass accepts position ids; adapters pass them on."""
    whose = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "position_ids" in inspect.signature(whose.forward).parameters
