"""Rows of a batch in blocks with a common KV cache before their own tokens, and the keys visible to each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import RowState


@dataclass(frozen=True)
class Block:
    """Rows ``first`` to ``last`` of a batch with a layer's KV cache before their own tokens.

    Its tensors are ``[1, H, P, D]`` for all rows, or ``[rows, H, P, D]`` with a ``mask`` ``[rows, P]`` that is 0 for
    padding. The rows' own tokens follow directly. ``led``: the batch's shared context, if any, precedes them.
    """

    first: int
    last: int
    before: Sequence[Tensor]
    mask: Tensor | None = None
    led: bool = False

    @property
    def rows(self) -> slice:
        """Its rows in the batch."""
        return slice(self.first, self.last)


@dataclass(frozen=True)
class Seen:
    """Keys that queries can attend to: from index ``first`` on, if ``mask`` ``[n, width or 1, keys]`` is not 0."""

    mask: Tensor | None = None
    first: int = 0

    def of(self, tensor: Tensor) -> Tensor:
        """Return keys or values ``[…, keys, D]`` without the keys that no query attends to."""
        return tensor[..., self.first :, :]

    def to(self, device: torch.device) -> Seen:
        """Return a copy with the mask on ``device``."""
        return self if self.mask is None else replace(self, mask=self.mask.to(device))


@dataclass(frozen=True)
class Sight:
    """Keys visible to a layer's queries: in the shared context, before each block, and among the rows' own tokens."""

    lead: Seen
    before: Sequence[Seen]
    own: Seen

    def to(self, device: torch.device) -> Sight:
        """Return a copy with all masks on ``device``."""
        return Sight(self.lead.to(device), [seen.to(device) for seen in self.before], self.own.to(device))


@dataclass(frozen=True)
class BatchLayout:
    """Lengths of a batch's rows: ``shared`` ``[n]`` prefix tokens each, then ``own`` ``[n]`` tokens.

    Own tokens are padded on the left to the longest; ``width`` tokens are read after each row.
    """

    shared: Tensor
    own: Tensor
    width: int

    @classmethod
    def of(cls, shared: Sequence[int], own: Sequence[int], counts: Sequence[int], width: int) -> Self:
        """Create the layout from each state's number of prefix tokens, own tokens and rows."""
        rows = torch.tensor(counts)
        return cls(torch.tensor(shared).repeat_interleave(rows), torch.tensor(own).repeat_interleave(rows), width)

    @property
    def longest(self) -> int:
        """Largest number of own tokens of a row."""
        return int(self.own.max())

    def positions(self) -> Tensor:
        """Return the positions of the tokens that are read, ``[n, width]``."""
        return (self.shared + self.own)[:, None] + torch.arange(self.width)

    def sight(self, blocks: Sequence[Block], lead: int, window: int | None) -> Sight:
        """Return the keys visible to a layer, with a shared context of ``lead`` tokens and a sliding window."""
        padded = [None if block.mask is None else block.mask[:, None] for block in blocks]
        asking = self.positions()
        if window is None or int(asking.max()) < window:
            return Sight(Seen(), [Seen(mask) for mask in padded], Seen(self._own_mask()))
        # Last position outside the window, then as an index among keys that end where own keys begin.
        unseen = asking - window
        unseen_index = unseen - self.shared[:, None]
        before = []
        for block, mask in zip(blocks, padded, strict=True):
            keys = block.before[0].shape[-2]
            before.append(_seen(unseen_index[block.rows] + keys, keys, mask))
        of_own = unseen_index - self.own[:, None] + self.longest
        return Sight(_seen(unseen, lead), before, _seen(of_own, self.longest + self.width, self._own_mask()))

    def _own_mask(self) -> Tensor | None:
        """Return a mask ``[n, width, k + width]`` that is 0 for padding and later tokens; None if it would be all 1."""
        longest = self.longest
        if self.width == 1 and bool((self.own == longest).all()):
            return None
        indices = torch.arange(longest + self.width)
        read = indices[None] <= longest + torch.arange(self.width)[:, None]
        return read[None] & (indices >= (longest - self.own)[:, None])[:, None]


def _seen(unseen: Tensor, keys: int, also: Tensor | None = None) -> Seen:
    """Return the visible keys: indices above ``unseen`` ``[n, width]`` that are not hidden by the mask ``also``."""
    first = min(max(0, int(unseen.min()) + 1), keys)
    mask = torch.arange(first, keys) > unseen[..., None]
    if also is not None:
        mask = mask & also[..., first:]
    return Seen(None if bool(mask.all()) else mask, first)


def few_as_one(first: int, few: Sequence[tuple[RowState, int]]) -> Block:
    """Return states with few rows as one block: their prefixes, padded on the left, one copy per row."""
    lengths = [state.own_length for state, _ in few]
    longest = max(lengths)
    rows = sum(count for _, count in few)
    mask = torch.ones(rows, longest, dtype=torch.bool)
    row = 0
    for length, (_, count) in zip(lengths, few, strict=True):
        mask[row : row + count, : longest - length] = False
        row += count
    prefixes = [state.prefix or [] for state, _ in few]
    before = []
    for column in range(len(prefixes[0])):
        tensors = [
            torch.nn.functional.pad(prefix[column], (0, 0, longest - length, 0)).expand(count, -1, -1, -1)
            for prefix, length, (_, count) in zip(prefixes, lengths, few, strict=True)
        ]
        before.append(torch.cat(tensors))
    return Block(first, first + rows, before, mask if not bool(mask.all()) else None, led=True)
