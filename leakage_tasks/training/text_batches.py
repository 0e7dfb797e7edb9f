"""Batches of (inputs, targets) of a text, for training or evaluating a language model."""

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
"""(inputs, targets), each [batch, length or less]; targets without a loss are ``IGNORED``."""


class Windows:
    """A text as ``batch_size`` parallel streams, read in order in windows of ``length`` tokens.

    All epochs have equal batches.
    """

    carried = True
    """True if each row continues the row of the previous batch."""

    def __init__(
        self, text: str, tokenizer: PreTrainedTokenizerBase, batch_size: int, length: int, device: torch.device
    ) -> None:
        ids = encoded(text, tokenizer)
        sides = self._split(ids, batch_size, length)
        self.inputs, self.targets = ([part.to(device) for part in side] for side in sides)
        self.characters = len(ids) - 1

    def __len__(self) -> int:
        return len(self.inputs)

    def epoch(self, number: int) -> Iterator[Batch]:
        """Return the batches of an epoch."""
        return zip(self.inputs, self.targets, strict=True)

    def _split(self, ids: Tensor, batch_size: int, length: int) -> Iterable[Sequence[Tensor]]:
        """Return the inputs of all batches, and the targets of all batches."""
        return (part.split(length, dim=1) for part in streams(ids, batch_size))


class DrawnWindows:
    """Windows of ``length`` tokens in random order, each read with an empty state.

    The start of the first window is random in each epoch, so the text is cut at other positions; one window continues
    from the end of the text at its beginning. Every token is a target in one window. Windows are shuffled or, with
    ``replacement``, drawn with replacement (bagging).
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
        """Yield the batches of epoch ``number``. They depend only on the seed and the number."""
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
        rolled = tokens.roll(-first)
        rest = self.windows * self._length - len(tokens)
        return torch.cat([rolled, rolled.new_zeros(rest)]).view(self.windows, self._length)


class OverlappingWindows(Windows):
    """Overlapping windows of ``length`` tokens read with an empty state; only the second half of each has targets.

    For models that cannot carry a state. Every token of the text except the first is predicted once, like in
    :class:`Windows`, after at least half a window of context, and positions do not exceed the positions of training.
    All tokens of the first window are targets.
    """

    carried = False

    def _split(self, ids: Tensor, batch_size: int, length: int) -> Iterable[Sequence[Tensor]]:
        count = len(ids) - 1
        step = max(1, length // 2)
        starts = torch.arange(0, max(1, count - length + step), step)
        positions = starts[:, None] + torch.arange(length)
        targets = torch.where(positions < count, ids[1:][positions.clamp(max=count - 1)], IGNORED)
        targets[1:, : length - step] = IGNORED
        inputs = ids[:-1][positions.clamp(max=count - 1)]
        return (part.split(batch_size) for part in (inputs, targets))


Batches = Windows | DrawnWindows


def encoded(text: str, tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """Return the token ids [n] of a text. Raises OptionError if there are fewer than two tokens."""
    ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False, verbose=False), dtype=torch.long)
    if len(ids) < 2:
        raise OptionError(f"a text of {len(ids)} characters is too short to train on: give 2 or more characters")
    return ids


def streams(ids: Tensor, batch_size: int) -> Batch:
    """Split ``ids`` [n] into ``batch_size`` parallel streams: (inputs, targets), each [batch, steps].

    Row by row, the targets are ids[1:], each exactly once. Positions after the end have the target ``IGNORED`` and an
    arbitrary input.
    """
    count = len(ids) - 1
    steps = math.ceil(count / batch_size)
    inputs = ids.new_zeros(batch_size * steps)
    targets = ids.new_full((batch_size * steps,), IGNORED)
    inputs[:count], targets[:count] = ids[:-1], ids[1:]
    return inputs.view(batch_size, steps), targets.view(batch_size, steps)
