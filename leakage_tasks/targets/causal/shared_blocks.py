"""Rows of a batch in blocks that look at the same keys and values before their own, and what a layer sees of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from leakage_tasks.targets.causal.cache import RowState


@dataclass(frozen=True)
class Block:
    """Rows ``first`` to ``last`` of a batch and a layer's keys and values before their own.

    These are ``[1, H, P, D]``, of all rows, or ``[rows, H, P, D]`` with a ``mask`` ``[rows, P]``, 0 where padded. They
    end where the rows' own begin. ``led`` says that the batch's lead, if it has one, stands before them.
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
    """Keys from place ``first`` on, of which queries see where ``mask`` ``[n, width or 1, keys]`` is not 0; None: all.

    No query sees those before ``first``.
    """

    mask: Tensor | None = None
    first: int = 0

    def of(self, tensor: Tensor) -> Tensor:
        """Keys or values ``[…, keys, D]`` without those that nothing sees."""
        return tensor[..., self.first :, :]

    def to(self, device: torch.device) -> Seen:
        """The same with its mask there."""
        return self if self.mask is None else replace(self, mask=self.mask.to(device))


@dataclass(frozen=True)
class Sight:
    """What the queries of a layer see of the lead, of what is before each block, and of the rows' own."""

    lead: Seen
    before: Sequence[Seen]
    own: Seen

    def to(self, device: torch.device) -> Sight:
        """The same with its masks there."""
        return Sight(self.lead.to(device), [each.to(device) for each in self.before], self.own.to(device))


@dataclass(frozen=True)
class BatchLayout:
    """How the rows of a batch lie: ``shared`` ``[n]`` tokens of a prefix each, then ``own`` ``[n]``.

    Own tokens are padded on the left to the most that there are; ``width`` tokens are read after each row.
    """

    shared: Tensor
    own: Tensor
    width: int

    @classmethod
    def of(cls, shared: Sequence[int], own: Sequence[int], counts: Sequence[int], width: int) -> Self:
        """Of states with so many tokens of a prefix, own tokens and rows each."""
        rows = torch.tensor(counts)
        return cls(torch.tensor(shared).repeat_interleave(rows), torch.tensor(own).repeat_interleave(rows), width)

    @property
    def longest(self) -> int:
        """The most own tokens of a row."""
        return int(self.own.max())

    def positions(self) -> Tensor:
        """The positions of the tokens that are read, ``[n, width]``."""
        return (self.shared + self.own)[:, None] + torch.arange(self.width)

    def sight(self, blocks: Sequence[Block], lead: int, window: int | None) -> Sight:
        """What a layer of a window sees of a lead of so many tokens, of what is before ``blocks``, and of rows' own."""
        padded = [None if block.mask is None else block.mask[:, None] for block in blocks]
        asking = self.positions()
        if window is None or int(asking.max()) < window:
            return Sight(Seen(), [Seen(mask) for mask in padded], Seen(self._own_mask()))
        # The last position that a query does not see, then as a place among keys that end where own ones begin.
        unseen = asking - window
        place = unseen - self.shared[:, None]
        before = []
        for block, mask in zip(blocks, padded, strict=True):
            keys = block.before[0].shape[-2]
            before.append(_seen(place[block.rows] + keys, keys, mask))
        of_own = place - self.own[:, None] + self.longest
        return Sight(_seen(unseen, lead), before, _seen(of_own, self.longest + self.width, self._own_mask()))

    def _own_mask(self) -> Tensor | None:
        """0 where a row's own tokens are padded or yet to come, ``[n, width, k + width]``; None where none is."""
        longest = self.longest
        if self.width == 1 and bool((self.own == longest).all()):
            return None
        places = torch.arange(longest + self.width)
        read = places[None] <= longest + torch.arange(self.width)[:, None]
        return read[None] & (places >= (longest - self.own)[:, None])[:, None]


def _seen(unseen: Tensor, keys: int, also: Tensor | None = None) -> Seen:
    """Of so many keys those after the place ``unseen`` ``[n, width]`` that ``also``, a mask of them, does not hide."""
    first = min(max(0, int(unseen.min()) + 1), keys)
    mask = torch.arange(first, keys) > unseen[..., None]
    if also is not None:
        mask = mask & also[..., first:]
    return Seen(None if bool(mask.all()) else mask, first)


def few_as_one(first: int, few: Sequence[tuple[RowState, int]]) -> Block:
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
    return Block(first, first + rows, before, mask if not bool(mask.all()) else None, led=True)
