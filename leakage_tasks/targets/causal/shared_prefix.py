"""Tokens after many texts of several prefixes in a single pass, in which no prefix is copied row by row.

A transformers attention function of our own looks at the keys and values of a prefix, kept once for all texts that
begin with it, and at each row's own: queries that share a prefix meet it in one matrix product, and both parts are
normalised together. The log-probabilities are those of attention over the two joined (as in Hydragen: Juravsky et al.
2024, arXiv:2402.05099, and in cascade inference).

Prefixes of few rows are padded to one length instead and looked at together, as long as the copies take little memory,
since products of a row each cost more than the copies. What all prefixes begin with, their lead, is looked at by all
rows in one product.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakage_tasks.targets.causal.cache import RowState, SharedLead

NAME = "leakage_shared_prefix"
FEW_ROWS = 8
"""Rows of one prefix up to which they are padded and looked at together with those of other prefixes."""
PLAIN = ("softcap", "s_aux", "sliding_window", "head_mask", "position_bias", "alibi")
"""What attention of other kinds is told and ours knows nothing of."""

_current = threading.local()


class NotPlainAttention(Exception):
    """The model's attention takes more into account than keys, values and a scale."""


@dataclass(frozen=True)
class _Block:
    """Rows ``first`` to ``last`` of a batch and a layer's keys and values before their own.

    These are ``[1, H, P, D]``, of all rows, or ``[rows, H, P, D]`` with a ``mask`` ``[rows, P]``, 0 where padded.
    ``led`` says that the batch's lead, if it has one, stands before them.
    """

    first: int
    last: int
    before: Sequence[Tensor]
    mask: Tensor | None = None
    led: bool = False


class _Layer(DynamicLayer):
    """A layer's keys and values of the rows alone, which says how many tokens there are with the prefix.

    They are put together with those of the tokens read when the layer is: no pass holds the others' twice.
    """

    def __init__(self, number: int, like: Tensor, before: int, batch: SharedBatch) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = like.dtype, like.device, True
        self._number, self._before, self._batch = number, before, batch

    def update(self, key_states: Tensor, value_states: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
        """Own keys and values with those of the tokens read; notes which layer's attention comes next."""
        self._batch.layer = self._number
        self.keys = self._batch.grown(2 * self._number, key_states)
        self.values = self._batch.grown(2 * self._number + 1, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Tokens read, the prefix included."""
        return self._before + (0 if self.keys is None else self._batch.width)


class SharedBatch:
    """States of several prefixes as one batch; ``states`` must have a prefix each, ``[rows, H, k, D]`` after it.

    ``width`` is how many tokens are read after each row. Copies of prefixes may take ``copied`` bytes.
    """

    def __init__(self, states: Sequence[RowState], width: int, copied: float) -> None:
        self.width, self._lead = width, _most_common_lead(states)
        shapes = [state.tensors[0].shape for state in states]
        counts = [shape[0] for shape in shapes]
        few = [place for place, state in enumerate(states) if state.lead is self._lead and counts[place] <= FEW_ROWS]
        if len(states) == 1 or _copied([(states[place], counts[place]) for place in few]) > copied:
            few = []
        # Those of few rows come last, to be one block.
        self._order = sorted(range(len(states)), key=few.__contains__)
        self._few = len(few)
        self._states = [states[place] for place in self._order]
        self._counts = [counts[place] for place in self._order]
        self._own = [shapes[place][-2] for place in self._order]
        self._longest = max(self._own)
        self.layer = 0
        self._blocks = self._in_blocks()
        self._own_mask = self._mask_of_own()

    # -- what the model is given ------------------------------------------------------------------------------

    def rows(self, parts: Sequence[Tensor]) -> Tensor:
        """Tensors of each state's rows in the order of the batch."""
        return torch.cat([parts[place] for place in self._order])

    def positions(self) -> Tensor:
        """The positions of the tokens to be read, ``[n, width]``."""
        lengths = [state.length + own for state, own in zip(self._states, self._own, strict=True)]
        return torch.tensor(lengths).repeat_interleave(torch.tensor(self._counts))[:, None] + torch.arange(self.width)

    def cache(self) -> DynamicCache:
        """A cache of the rows' own keys and values, shorter ones padded on the left."""
        before = max(state.length + own for state, own in zip(self._states, self._own, strict=True))
        cache, kept = DynamicCache(), self._states[0].prefix or []
        cache.layers = [_Layer(number, keys, before, self) for number, keys in enumerate(kept[::2])]
        return cache

    def grown(self, place: int, new: Tensor) -> Tensor:
        """One of the rows' tensors with what a pass adds to it."""
        tensors = [state.tensors[place] for state in self._states]
        if len(tensors) > 1:
            grown = [torch.nn.functional.pad(each, (0, 0, self._longest - each.shape[-2], 0)) for each in tensors]
            tensors = [torch.cat(grown)]
        return torch.cat([*tensors, new], dim=-2)

    # -- what comes of it -------------------------------------------------------------------------------------

    def split(self, cache: DynamicCache) -> list[RowState]:
        """The states after the pass, in the order they were given; the cache is taken to pieces."""
        pieces: list[list[Tensor]] = [[] for _ in self._states]
        layers: list[Any] = cache.layers
        for layer in layers:
            for tensor in (layer.keys, layer.values):
                for own, piece in zip(pieces, self._pieces(tensor), strict=True):
                    own.append(piece)
            layer.keys = layer.values = None
        grown = zip(self._order, self._states, pieces, strict=True)
        found = {place: replace(state, tensors=own, read=state.read + self.width) for place, state, own in grown}
        return [found[place] for place in range(len(found))]

    def _pieces(self, tensor: Tensor) -> list[Tensor]:
        """Each state's rows and tokens of a tensor of the batch, in memory of their own."""
        if len(self._states) == 1:
            return [tensor]
        rows = zip(tensor.split(self._counts), self._own, strict=True)
        return [part[:, :, self._longest - own :].clone() for part, own in rows]

    def parts(self, rows: Tensor) -> list[Tensor]:
        """What belongs to each state of a tensor of the batch's rows, in the order they were given."""
        pieces = dict(zip(self._order, rows.split(self._counts), strict=True))
        return [pieces[place] for place in range(len(pieces))]

    # -- attention --------------------------------------------------------------------------------------------

    def _in_blocks(self) -> list[_Block]:
        blocks, first, pairs = [], 0, list(zip(self._states, self._counts, strict=True))
        alone = len(pairs) - self._few
        for state, count in pairs[:alone]:
            led = state.lead is self._lead
            before = state.prefix if led else state.whole_prefix()
            assert before is not None
            blocks.append(_Block(first, first + count, before, led=led))
            first += count
        if self._few:
            blocks.append(_few(first, pairs[alone:]))
        return blocks

    def _mask_of_own(self) -> Tensor | None:
        """0 where a row's own tokens are padded or yet to come, ``[n, width, k + width]``; None where none is."""
        if len(set(self._own)) == 1 and self.width == 1:
            return None
        lengths = torch.tensor(self._own).repeat_interleave(torch.tensor(self._counts))
        places = torch.arange(self._longest + self.width)
        read = places[None] <= self._longest + torch.arange(self.width)[:, None]
        return read[None] & (places >= (self._longest - lengths)[:, None])[:, None]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Attention of each row's queries ``[n, heads, w, D]`` to keys and values ``[n, H, k + w, D]``.

        ``w`` is the width; what comes of it is ``[n, w, heads, D]``.
        """
        # Query heads that share a head of keys stand together.
        asked = query.reshape(len(key), key.shape[1], -1, query.shape[-1]) * scaling
        if self._lead is None:
            lead = values = None
        else:
            keys, values = self._lead.tensors[2 * self.layer], self._lead.tensors[2 * self.layer + 1]
            lead = _products(asked, keys.transpose(-1, -2))
        found = [self._attend(block, asked, lead, key, value) for block in self._blocks]
        mixed, weights = (parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*found, strict=True))
        if values is not None:
            mixed = mixed + _products(weights, values)
        return mixed.reshape(len(key), -1, self.width, mixed.shape[-1]).transpose(1, 2)

    def _attend(
        self, block: _Block, asked: Tensor, lead: Tensor | None, key: Tensor, value: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What rows of a block take of what is after the lead, and how much weight each token of the lead has."""
        rows = slice(block.first, block.last)
        asked, own_keys, own_values = asked[rows], key[rows], value[rows]
        keys, values = block.before[2 * self.layer], block.before[2 * self.layer + 1]
        padded = None if block.mask is None else block.mask[:, None]
        before = _masked(_products(asked, keys.transpose(-1, -2)), padded)
        own = _masked(asked @ own_keys.transpose(-1, -2), None if self._own_mask is None else self._own_mask[rows])
        first = lead[rows] if lead is not None and block.led else before[..., :0]
        weights = torch.cat([first, before, own], dim=-1).float().softmax(-1).to(values.dtype)
        of_lead, of_prefix, of_own = weights.split([first.shape[-1], before.shape[-1], own.shape[-1]], dim=-1)
        if lead is not None and not block.led:
            of_lead = torch.zeros_like(lead[rows])
        return _products(of_prefix, values) + of_own @ own_values, of_lead


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores ``[n, H, g · w, k]`` with those where ``mask`` ``[n, w or 1, k]`` is 0 at −∞."""
    if mask is None:
        return scores
    each = mask.repeat(1, scores.shape[2] // mask.shape[1], 1) if mask.shape[1] > 1 else mask
    return scores.masked_fill(~each[:, None].to(scores.device), float("-inf"))


def _products(left: Tensor, right: Tensor) -> Tensor:
    """``left`` ``[n, H, g, a]`` times ``right`` ``[n or 1, H, a, b]``: the rows of one right side in one product."""
    if len(right) == len(left):
        return left @ right
    rows, heads, group, width = left.shape
    flat = left.permute(1, 0, 2, 3).reshape(heads, rows * group, width)
    return (flat @ right[0]).reshape(heads, rows, group, -1).permute(1, 0, 2, 3)


def _most_common_lead(states: Sequence[RowState]) -> SharedLead | None:
    leads = {id(state.lead): state.lead for state in states}
    counted = Counter(id(state.lead) for state in states)
    return leads[counted.most_common(1)[0][0]]


def _copied(few: Sequence[tuple[RowState, int]]) -> int:
    """Bytes of prefixes that are padded to one length, once for each of so many rows."""
    return max((state.prefix_bytes for state, _ in few), default=0) * sum(count for _, count in few)


def _few(first: int, few: Sequence[tuple[RowState, int]]) -> _Block:
    """States of few rows as one block: their prefixes, padded on the left, once for each row."""
    lengths = [state.own_length for state, _ in few]
    longest = max(lengths)
    rows = sum(count for _, count in few)
    mask = torch.ones(rows, longest, dtype=torch.bool)
    place = 0
    for length, (_, count) in zip(lengths, few, strict=True):
        mask[place : place + count, : longest - length] = False
        place += count
    prefixes = [state.prefix or [] for state, _ in few]
    before = []
    for column in range(len(prefixes[0])):
        tensors = [
            torch.nn.functional.pad(prefix[column], (0, 0, longest - length, 0)).expand(count, -1, -1, -1)
            for prefix, length, (_, count) in zip(prefixes, lengths, few, strict=True)
        ]
        before.append(torch.cat(tensors))
    return _Block(first, first + rows, before, mask if not bool(mask.all()) else None, led=True)


def _attention(
    _: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, scaling: float | None = None, **rest: Any
) -> tuple[Tensor, None]:
    """Attention as transformers calls it, for the batch that is being read."""
    odd = [name for name in PLAIN if rest.get(name) is not None]
    batch: SharedBatch = _current.batch
    if odd or attention_mask is not None or query.shape[2] != batch.width:
        raise NotPlainAttention(", ".join(odd) or "masked")
    return batch.attend(query, key, value, query.shape[-1] ** -0.5 if scaling is None else scaling), None


@contextlib.contextmanager
def attending(model: Any, batch: SharedBatch) -> Iterator[None]:
    """Let ``model`` attend by :meth:`SharedBatch.attend` within the block."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)
    configs = {id(config): config for config in map(_config_of, model.modules()) if config is not None}
    before = [(config, config._attn_implementation) for config in configs.values()]
    _current.batch = batch
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
