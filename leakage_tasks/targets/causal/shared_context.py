"""Attention to a context that all texts of a pass share, stored once and multiplied with all rows in one product.

A custom attention function, which transformers' models call, normalises the scores for the shared context together
with those for each row's own tokens. The probabilities equal attention over the whole text (as in Hydragen: Juravsky et
al. 2024, arXiv:2402.05099, and in cascade inference). Layers with a sliding window attend only to keys inside it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from leakage_tasks.targets.causal.key_values import NOTHING, KeyValueBatch, KeyValueTable, Reading

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


@dataclass(frozen=True, eq=False)
class SharedContext:
    """The ``tokens`` that many texts begin with, after they were read, and keys and values ``[1, H, length, D]``.

    There are none if the model cannot share them.
    """

    tokens: tuple[int, ...]
    begun: Any
    tensors: list[Tensor]

    @property
    def length(self) -> int:
        """Number of tokens, a soft prompt included."""
        return self.tensors[0].shape[2]


class SharedContextBatch(KeyValueBatch):
    """Rows of a pass over texts after one shared context.

    ``windows`` are the layers' sliding windows (:func:`~leakage_tasks.targets.causal.windows.windows_of`).
    """

    def __init__(
        self, table: KeyValueTable, reading: Reading, context: SharedContext, windows: Sequence[int | None]
    ) -> None:
        super().__init__(table, reading)
        self.width, self._context, self._windows = reading.width, context, windows
        self._masks: dict[tuple[int | None, torch.device], tuple[Tensor | None, Tensor | None]] = {}

    @property
    def window(self) -> int | None:
        """Sliding window of the layer that was updated last, None for full attention."""
        return self._windows[self.layer] if self._windows else None

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores, sinks: Tensor | None = None) -> Tensor:
        """Return attention outputs ``[n, width, heads, D]`` for queries ``[n, heads, width, D]``.

        ``key`` and ``value`` ``[n, H, K, D]`` are of the own tokens. ``sinks`` ``[heads]`` are scores of attention
        sinks, which have no value (as in gpt-oss).
        """
        before, own_mask = self._visible(key.device)
        # Query heads that share a key head are adjacent.
        queries = query.reshape(len(key), key.shape[1], -1, query.shape[-1]) * scores.scaling
        keys, values = self._context.tensors[2 * self.layer : 2 * self.layer + 2]
        parts = [
            _masked(scores(_products(queries, keys[0].transpose(-1, -2))), before),
            _masked(scores(queries @ key.transpose(-1, -2)), own_mask),
        ]
        if sinks is not None:
            sink = sinks.reshape(key.shape[1], -1).repeat_interleave(self.width, dim=1)
            parts.append(sink[None, ..., None].expand(len(key), -1, -1, -1))
        # Torch sums in float32 and rounds the result, so a conversion would only take time and memory.
        weights = torch.cat(parts, dim=-1).softmax(-1).to(value.dtype)
        shared, own = weights[..., : keys.shape[2]], weights[..., keys.shape[2] : keys.shape[2] + key.shape[2]]
        mixed = _products(shared, values[0]) + own @ value
        return mixed.reshape(len(key), -1, self.width, mixed.shape[-1]).transpose(1, 2)

    def _visible(self, device: torch.device) -> tuple[Tensor | None, Tensor | None]:
        """Return masks of the context's keys and of own keys ``[n, width, k]``, None for all; once for each window."""
        kind = self.window, device
        if kind not in self._masks:
            masks = self._context_mask(), self._own_mask()
            before, own = (None if mask.all() else torch.from_numpy(mask).to(device) for mask in masks)
            self._masks[kind] = before, own
        return self._masks[kind]

    def _context_mask(self) -> np.ndarray:
        """Return the keys of the context inside the window, ``[n, width, length]``."""
        if self.window is None:
            return np.ones((1, 1, 1), dtype=bool)
        return np.arange(self._context.length) > (self._reading.positions - self.window)[..., None]

    def _own_mask(self) -> np.ndarray:
        """Return the keys of each row's own tokens inside the window, ``[n, width, K]``."""
        past, width = self._reading.past, self.width
        real = np.concatenate([past != NOTHING, np.ones((len(past), width), dtype=bool)], axis=1)[:, None]
        keys, queries = np.arange(past.shape[1] + width), past.shape[1] + np.arange(width)[:, None]
        visible = real & (keys <= queries)
        return visible if self.window is None else visible & (keys > queries - self.window)


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Set scores ``[n, H, g · w, k]`` to −∞ where ``mask`` ``[n, w, k]`` is False."""
    if mask is None:
        return scores
    rows, heads, queries, keys = scores.shape
    grouped = scores.reshape(rows, heads, queries // mask.shape[1], mask.shape[1], keys)
    return grouped.masked_fill(~mask[:, None, None], float("-inf")).reshape(scores.shape)


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Multiply ``left`` ``[n, H, g, a]`` by ``right`` ``[H, a, b]`` in one product per head."""
    rows, heads, group, width = left.shape
    flat = left.permute(1, 0, 2, 3).reshape(heads, rows * group, width)
    return (flat @ right).reshape(heads, rows, group, -1).permute(1, 0, 2, 3)


def _attention(
    _: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float | None = None, **rest: Any
) -> tuple[Tensor, None]:
    """Compute attention with transformers' interface, for the batch that is being read."""
    odd = [name for name in (*ODD, *_current.unheard) if rest.get(name) is not None]
    batch: SharedContextBatch = _current.batch
    # A sliding window that is missing in the configuration, or applied by a mask, would be ignored.
    odd += ["sliding_window"] if rest.get("sliding_window") != batch.window else []
    if odd or attention_mask is not None or query.shape[2] != batch.width:
        raise NotPlainAttention(", ".join(odd) or "masked")
    scores = Scores(query.shape[-1] ** -0.5 if scaling is None else scaling, rest.get("softcap"))
    return batch.attend(query, key, value, scores, rest.get("s_aux")), None


@contextlib.contextmanager
def attending(model: Any, batch: SharedContextBatch) -> Iterator[None]:
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
