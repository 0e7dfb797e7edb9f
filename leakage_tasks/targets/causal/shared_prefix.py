"""One forward pass over texts with several prefixes, without a copy of the prefix for each row.

A custom transformers attention function uses the KV cache of a prefix, stored once for all its texts, and the keys and
values of each row. Queries with a common prefix are multiplied with it in one matrix product, and both parts are
normalised together. The log-probabilities equal attention over the concatenated cache (as in Hydragen: Juravsky
et al. 2024, arXiv:2402.05099, and in cascade inference). Layers with a sliding window attend only to keys inside it.

Prefixes with few rows are instead padded to one length and multiplied together if the copies take little memory, since
one product per row takes longer than copying. The shared context of all prefixes is multiplied with all rows in one
product.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer

from leakage_tasks.targets.causal.cache import RowState, SharedLead
from leakage_tasks.targets.causal.own_attention import Scores
from leakage_tasks.targets.causal.shared_blocks import BatchLayout, Block, Seen, Sight, few_as_one

FEW_ROWS = 8
"""Maximum number of rows of a prefix that is padded and processed together with others."""


@dataclass(frozen=True)
class _Beside:
    """Scores ``[n, H, g · w, k]`` of all rows for the shared context, for their own keys, and for attention sinks."""

    lead: Tensor
    own: Tensor
    nothing: Tensor


class _Layer(DynamicLayer):
    """A layer's keys and values of the rows alone; its sequence length includes the prefix.

    They are concatenated with the new tokens when the layer runs, so a pass never holds two copies of other layers.
    """

    def __init__(self, number: int, like: Tensor, before: int, batch: SharedBatch) -> None:
        super().__init__()
        self.dtype, self.device, self.is_initialized = like.dtype, like.device, True
        self._number, self._before, self._batch = number, before, batch

    def update(self, key_states: Tensor, value_states: Tensor, *rest: Any, **more: Any) -> tuple[Tensor, Tensor]:
        """Return own keys and values including the new tokens; store the number of the layer."""
        self._batch.layer = self._number
        self.keys = self._batch.grown(2 * self._number, key_states)
        self.values = self._batch.grown(2 * self._number + 1, value_states)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        """Return the number of tokens read, including the prefix."""
        return self._before + (0 if self.keys is None else self._batch.width)


class SharedBatch:
    """States of several prefixes as one batch; each state must have a prefix and tensors ``[rows, H, k, D]`` after it.

    ``width`` is the number of tokens read after each row. Copies of prefixes may take ``copied`` bytes. ``windows`` are
    the layers' sliding windows (:func:`~leakage_tasks.targets.causal.windows.windows_of`).
    """

    def __init__(
        self, states: Sequence[RowState], width: int, copied: float, windows: Sequence[int | None] = ()
    ) -> None:
        self.width, self._lead, self._windows = width, _most_common_lead(states), windows
        shapes = [state.tensors[0].shape for state in states]
        counts = [shape[0] for shape in shapes]
        few = [index for index, state in enumerate(states) if state.lead is self._lead and counts[index] <= FEW_ROWS]
        if len(states) == 1 or _copied([(states[number], counts[number]) for number in few]) > copied:
            few = []
        # States with few rows come last and form one block.
        self._order = sorted(range(len(states)), key=few.__contains__)
        self._few = len(few)
        self._states = [states[number] for number in self._order]
        self._counts = [counts[number] for number in self._order]
        self._own = [shapes[number][-2] for number in self._order]
        self._layout = BatchLayout.of([state.length for state in self._states], self._own, self._counts, width)
        self._longest = self._layout.longest
        self.layer = 0
        self._blocks = self._in_blocks()
        self._sights: dict[tuple[int | None, torch.device], Sight] = {}

    # -- inputs of the model ----------------------------------------------------------------------------------

    def rows(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate the rows of all states in the order of the batch."""
        return torch.cat([parts[index] for index in self._order])

    def positions(self) -> Tensor:
        """Return the positions of the tokens to read, ``[n, width]``."""
        return self._layout.positions()

    def cache(self) -> DynamicCache:
        """Return a cache of the rows' own keys and values, padded on the left."""
        before = max(state.length + own_length for state, own_length in zip(self._states, self._own, strict=True))
        cache, prefix = DynamicCache(), self._states[0].prefix or []
        cache.layers = [_Layer(number, keys, before, self) for number, keys in enumerate(prefix[::2])]
        return cache

    def grown(self, index: int, new: Tensor) -> Tensor:
        """Return one of the rows' tensors with the new tokens appended."""
        tensors = [state.tensors[index] for state in self._states]
        if len(tensors) > 1:
            grown = [torch.nn.functional.pad(tensor, (0, 0, self._longest - tensor.shape[-2], 0)) for tensor in tensors]
            tensors = [torch.cat(grown)]
        return torch.cat([*tensors, new], dim=-2)

    # -- results ----------------------------------------------------------------------------------------------

    def split(self, cache: DynamicCache) -> list[RowState]:
        """Return the states after the pass in their original order; this empties the cache."""
        pieces: list[list[Tensor]] = [[] for _ in self._states]
        layers: list[Any] = cache.layers
        for layer in layers:
            for tensor in (layer.keys, layer.values):
                for tensors, piece in zip(pieces, self._pieces(tensor), strict=True):
                    tensors.append(piece)
            layer.keys = layer.values = None
        grown = zip(self._order, self._states, pieces, strict=True)
        states = {
            number: replace(state, tensors=tensors, read=state.read + self.width) for number, state, tensors in grown
        }
        return [states[index] for index in range(len(states))]

    def _pieces(self, tensor: Tensor) -> list[Tensor]:
        """Return copies of each state's rows and tokens of a tensor of the batch."""
        if len(self._states) == 1:
            return [tensor]
        rows = zip(tensor.split(self._counts), self._own, strict=True)
        return [part[:, :, self._longest - own_length :].clone() for part, own_length in rows]

    def parts(self, rows: Tensor) -> list[Tensor]:
        """Split a tensor of the batch's rows by state, in the original order."""
        pieces = dict(zip(self._order, rows.split(self._counts), strict=True))
        return [pieces[index] for index in range(len(pieces))]

    # -- attention --------------------------------------------------------------------------------------------

    def _in_blocks(self) -> list[Block]:
        blocks, first, pairs = [], 0, list(zip(self._states, self._counts, strict=True))
        alone = len(pairs) - self._few
        for state, count in pairs[:alone]:
            led = state.lead is self._lead
            before = state.prefix if led else state.whole_prefix()
            assert before is not None
            blocks.append(Block(first, first + count, before, led=led))
            first += count
        if self._few:
            blocks.append(few_as_one(first, pairs[alone:]))
        return blocks

    @property
    def window(self) -> int | None:
        return self._windows[self.layer] if self._windows else None

    def _sight(self, device: torch.device) -> Sight:
        """Return the keys visible to the next layer, computed once for each window and device."""
        kind = self.window, device
        if kind not in self._sights:
            lead = self._lead.length if self._lead else 0
            self._sights[kind] = self._layout.sight(self._blocks, lead, self.window).to(device)
        return self._sights[kind]

    def attend(self, query: Tensor, key: Tensor, value: Tensor, scores: Scores, sinks: Tensor | None = None) -> Tensor:
        """Compute attention as :class:`~leakage_tasks.targets.causal.own_attention.Attends`; keys ``[n, H, k + w,
        D]``."""
        sight = self._sight(key.device)
        # Query heads that share a key head are adjacent.
        queries = query.reshape(len(key), key.shape[1], -1, query.shape[-1]) * scores.scaling
        own = _masked(scores(queries @ sight.own.of(key).transpose(-1, -2)), sight.own.mask)
        lead, lead_values = own[..., :0], None
        if self._lead is not None:
            lead_keys, lead_values = (sight.lead.of(self._lead.tensors[2 * self.layer + part]) for part in (0, 1))
            lead = _masked(scores(_products(queries, lead_keys.transpose(-1, -2))), sight.lead.mask)
        common = _Beside(lead, own, _of_nothing(sinks, own, self.width))
        outputs = [
            self._attend(block, seen, queries[block.rows], common, scores)
            for block, seen in zip(self._blocks, sight.before, strict=True)
        ]
        mixed, of_lead, of_own = (
            parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*outputs, strict=True)
        )
        mixed = mixed + of_own @ sight.own.of(value)
        if lead_values is not None:
            mixed = mixed + _products(of_lead, lead_values)
        return mixed.reshape(len(key), -1, self.width, mixed.shape[-1]).transpose(1, 2)

    def _attend(
        self, block: Block, seen: Seen, queries: Tensor, common: _Beside, scores: Scores
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return a block's attention output for the prefix, and its weights for the shared context and own tokens."""
        keys, values = (seen.of(block.before[2 * self.layer + part]) for part in (0, 1))
        before = _masked(scores(_products(queries, keys.transpose(-1, -2))), seen.mask)
        lead, own, nothing = (part[block.rows] for part in (common.lead, common.own, common.nothing))
        first = lead if block.led else lead[..., :0]
        parts = [first, before, own, nothing]
        weights = torch.cat(parts, dim=-1).float().softmax(-1).to(values.dtype)
        of_lead, of_prefix, of_own, _ = weights.split([part.shape[-1] for part in parts], dim=-1)
        return _products(of_prefix, values), of_lead if block.led else torch.zeros_like(lead), of_own


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Set scores ``[n, H, g · w, k]`` to −∞ if ``mask`` ``[n, w or 1, k]`` is 0."""
    if mask is None:
        return scores
    rows, heads, queries, keys = scores.shape
    grouped = scores.reshape(rows, heads, queries // mask.shape[1], mask.shape[1], keys)
    return grouped.masked_fill(~mask[:, None, None], float("-inf")).reshape(scores.shape)


def _products(left: Tensor, right: Tensor) -> Tensor:
    """Multiply ``left`` ``[n, H, g, a]`` by ``right`` ``[n or 1, H, a, b]``; a single right side takes one product."""
    if len(right) == len(left):
        return left @ right
    rows, heads, group, width = left.shape
    flat = left.permute(1, 0, 2, 3).reshape(heads, rows * group, width)
    return (flat @ right[0]).reshape(heads, rows, group, -1).permute(1, 0, 2, 3)


def _of_nothing(sinks: Tensor | None, like: Tensor, width: int) -> Tensor:
    """Return scores ``[n, H, g · w, 1]`` of ``sinks`` ``[heads]``, or an empty tensor ``[…, 0]`` without sinks."""
    if sinks is None:
        return like[..., :0]
    scores = sinks.reshape(like.shape[1], -1).repeat_interleave(width, dim=1)
    return scores[None, ..., None].expand(len(like), -1, -1, -1)


def _most_common_lead(states: Sequence[RowState]) -> SharedLead | None:
    leads = {id(state.lead): state.lead for state in states}
    counted = Counter(id(state.lead) for state in states)
    return leads[counted.most_common(1)[0][0]]


def _copied(few: Sequence[tuple[RowState, int]]) -> int:
    """Return the memory in bytes of prefixes padded to one length, with one copy per row."""
    return max((state.prefix_bytes for state, _ in few), default=0) * sum(count for _, count in few)
