"""An attention function of our own, which transformers' models call while a batch of ours is read."""

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
"""What attention of other kinds is told and ours knows nothing of."""

_current = threading.local()


class NotPlainAttention(Exception):
    """The model's attention takes more into account than ours does."""


@dataclass(frozen=True)
class Scores:
    """What becomes of the products of queries and keys: times ``scaling``, then within ±``softcap`` (as in Gemma 2)."""

    scaling: float
    softcap: float | None = None

    def __call__(self, products: Tensor) -> Tensor:
        """Scores of products of queries that are scaled already."""
        return products if self.softcap is None else (products / self.softcap).tanh() * self.softcap


class Attends(Protocol):
    """A batch that is read."""

    @property
    def width(self) -> int:
        """Tokens that are read after each row."""

    @property
    def window(self) -> int | None:
        """The sliding window of the layer whose attention comes next, in tokens; None for one that looks at all."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores, sinks: Tensor | None) -> Tensor:
        """What queries ``[n, heads, width, D]`` take of values, ``[n, width, heads, D]``.

        ``sinks`` ``[heads]`` are scores of what gives nothing (as in gpt-oss).
        """


def _attention(
    _: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float | None = None, **rest: Any
) -> tuple[Tensor, None]:
    """Attention as transformers calls it, for the batch that is being read."""
    odd = [name for name in (*ODD, *_current.unheard) if rest.get(name) is not None]
    batch: Attends = _current.batch
    # A window that the configuration does not tell of, or that is looked after by a mask, would be missed.
    odd += ["sliding_window"] if rest.get("sliding_window") != batch.window else []
    if odd or attention_mask is not None or query.shape[2] != batch.width:
        raise NotPlainAttention(", ".join(odd) or "masked")
    scores = Scores(query.shape[-1] ** -0.5 if scaling is None else scaling, rest.get("softcap"))
    return batch.attend(query, key, value, scores, rest.get("s_aux")), None


@contextlib.contextmanager
def attending(model: Any, batch: Attends) -> Iterator[None]:
    """Let ``model`` attend as ``batch`` does within the block."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)
    configs = {id(config): config for config in map(_config_of, model.modules()) if config is not None}
    before = [(config, config._attn_implementation) for config in configs.values()]
    _current.batch = batch
    # These are told torch's own attention, which takes no account of them.
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
    """Whether a model's forward pass can be told the positions of its tokens; adapters hand them on."""
    whose = model.get_base_model() if hasattr(model, "get_base_model") else model
    return "position_ids" in inspect.signature(whose.forward).parameters
