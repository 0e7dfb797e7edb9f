"""A text as batches of (inputs, targets) to learn a language model from, or to read its loss on."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from leakage_tasks.core.errors import OptionError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100
Batch = tuple[Tensor, Tensor]
"""(inputs, targets), each [batch, length or less]; targets that do not count are ``IGNORED``."""


class Windows:
    """A text read in order as ``batch_size`` parallel streams, a window of ``length`` of each at a time.

    The batches are the same every epoch.
    """

    carried = True
    """Whether each row goes on where it ended in the batch before."""

    def __init__(
        self, text: str, tokenizer: PreTrainedTokenizerBase, batch_size: int, length: int, device: torch.device
    ) -> None:
        ids = encoded(text, tokenizer)
        laid_out = self._laid_out(ids, batch_size, length)
        self.inputs, self.targets = ([part.to(device) for part in side] for side in laid_out)
        self.characters = len(ids) - 1

    def __len__(self) -> int:
        return len(self.inputs)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of an epoch, (inputs, targets) each."""
        return zip(self.inputs, self.targets, strict=True)

    def _laid_out(self, ids: Tensor, batch_size: int, length: int) -> Iterable[Sequence[Tensor]]:
        """The inputs of each batch, and the targets of each."""
        return (part.split(length, dim=1) for part in streams(ids, batch_size))


class DrawnWindows:
    """Windows of ``length`` tokens in random order, each read from an empty state.

    Where the first one begins is drawn anew each epoch, so that the text is not cut at the same places; one window
    goes on from the text's end at its beginning. Every token is a target in one window. ``replacement`` draws as many
    windows as there are with replacement (bagging), else each comes once (shuffling).
    """

    carried = False

    def __init__(
        self,
        text: str,
        tokenizer: PreTrainedTokenizerBase,
        batch_size: int,
        length: int,
        device: torch.device,
        *,
        seed: int = 0,
        replacement: bool = False,
    ) -> None:
        ids = encoded(text, tokenizer).to(device)
        self._inputs, self._targets = ids[:-1], ids[1:]
        self._batch_size, self._seed, self._replacement = batch_size, seed, replacement
        self._length = min(length, len(self._inputs))
        self.windows = math.ceil(len(self._inputs) / self._length)

    def __len__(self) -> int:
        return math.ceil(self.windows / self._batch_size)

    def epoch(self, number: int) -> Iterator[Batch]:
        """The batches of epoch ``number``, the same for the same number."""
        draws = torch.Generator().manual_seed(random.Random(f"windows:{self._seed}:{number}").getrandbits(63))
        first = int(torch.randint(self._length, (), generator=draws))
        inputs, targets = (self._cut(part, first) for part in (self._inputs, self._targets))
        targets[-1, len(self._targets) - (self.windows - 1) * self._length :] = IGNORED
        if self._replacement:
            order = torch.randint(self.windows, (self.windows,), generator=draws)
        else:
            order = torch.randperm(self.windows, generator=draws)
        for rows in order.to(inputs.device).split(self._batch_size):
            yield inputs[rows], targets[rows]

    def _cut(self, tokens: Tensor, first: int) -> Tensor:
        turned = tokens.roll(-first)
        rest = self.windows * self._length - len(tokens)
        return torch.cat([turned, turned.new_zeros(rest)]).view(self.windows, self._length)


class OverlappingWindows(Windows):
    """Windows of ``length`` tokens read from an empty state, the later half of each counting (of the first, all).

    For models that cannot carry a state: every token of the text but the first is predicted once, as by
    :class:`Windows`, after half a window of context or more, and no place lies further on than in training.
    """

    carried = False

    def _laid_out(self, ids: Tensor, batch_size: int, length: int) -> Iterable[Sequence[Tensor]]:
        count = len(ids) - 1
        step = max(1, length // 2)
        starts = torch.arange(0, max(1, count - length + step), step)
        places = starts[:, None] + torch.arange(length)
        targets = torch.where(places < count, ids[1:][places.clamp(max=count - 1)], IGNORED)
        targets[1:, : length - step] = IGNORED
        inputs = ids[:-1][places.clamp(max=count - 1)]
        return (part.split(batch_size) for part in (inputs, targets))


Batches = Windows | DrawnWindows


def encoded(text: str, tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """Token ids [n] of a text. Raises OptionError where there is nothing to predict."""
    ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False, verbose=False), dtype=torch.long)
    if len(ids) < 2:
        raise OptionError(f"a text of {len(ids)} characters cannot be learnt from: give one of 2 or more")
    return ids


def streams(ids: Tensor, batch_size: int) -> Batch:
    """Lay ``ids`` [n] out as ``batch_size`` parallel streams: (inputs, targets), each [batch, steps].

    Row after row, the targets are ids[1:], each exactly once; places after the end hold ``IGNORED`` (and
    an input of no consequence).
    """
    count = len(ids) - 1
    steps = math.ceil(count / batch_size)
    inputs = ids.new_zeros(batch_size * steps)
    targets = ids.new_full((batch_size * steps,), IGNORED)
    inputs[:count], targets[:count] = ids[:-1], ids[1:]
    return inputs.view(batch_size, steps), targets.view(batch_size, steps)
