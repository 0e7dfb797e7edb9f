"""What happens where memory runs out: every engine asks about fewer rows at once, and comes to the same figures."""

from __future__ import annotations

import math
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.targets.freed_memory import FreedMemory

Answer = TypeVar("Answer")

MOST_ROWS = 1 << 16
LOGIT_BYTES = 12
"""Memory a logit takes while a token is chosen by it."""
ACTIVATIONS = 16
"""Memory that a weight of a row's attention to what stands before it takes meanwhile, and a unit of its widest layer:
four numbers in float32."""
SMALLER = "load the model in fewer bits (dtype=bfloat16 in --model_args), or use a device with more memory"
SHOWN = 160
"""Characters of what torch says, which for a GPU is a long line."""

_NO_ROOM = re.compile(
    "out of memory|can't allocate memory|not enough memory|alloc_failed|storage size calculation overflowed", re.I
)
"""What torch says in a plain RuntimeError, on some devices and systems, where it has no memory."""


def activation_bytes(config: Any, length: int) -> int:
    """Bytes that a layer takes meanwhile for a row's token after ``length`` others; ``config`` is a text model's."""
    hidden, heads = getattr(config, "hidden_size", 0), getattr(config, "num_attention_heads", 0)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    # Some models have a size for each layer.
    widest = max(inner) if isinstance(inner, Sequence) else inner
    return ACTIVATIONS * (heads * length + widest)


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that a device, or the machine itself, has no memory left."""
    from accelerate.utils.memory import should_reduce_batch_size

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    return bool(_NO_ROOM.search(str(error))) or should_reduce_batch_size(RuntimeError(str(error)))


class RowLimit:
    """How many rows one pass may hold: ``most``, and half as many as were too many from where memory runs out."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.most = most
        self._freed = FreedMemory()

    @contextmanager
    def halving(self, rows: int, least: int = 1, remedy: str = SMALLER) -> Iterator[None]:
        """Leave the block early, with ``most`` at half of ``rows``, where there is no memory for that many.

        It is for a block in a loop that goes on until all is done, ``rows`` at a time. Raises TargetError, which names
        ``remedy``, where ``rows`` is no more than ``least``, which cannot be less.
        """
        from accelerate.utils.memory import clear_device_cache

        try:
            yield
            self._freed.look()
            return
        except Exception as error:
            if not out_of_memory(error):
                raise
            said = first_line(error)[:SHOWN]
            if rows <= least:
                what = "one text alone" if rows <= 1 else f"{rows} texts that have to be read together"
                raise TargetError(f"out of memory for {what} ({said}): {remedy}") from None
            # The calls that failed still hold what they had computed.
            traceback.clear_frames(error.__traceback__)
        self.most = max(least, -(-rows // 2))
        log.info("out of memory for %d rows (%s): %d at a time from here on", rows, said, self.most)
        # What nothing refers to any longer is freed, on whatever device.
        clear_device_cache(garbage_collection=True)

    def parts(self, rows: int, ask: Callable[[slice], Answer], at_once: int = MOST_ROWS) -> list[Answer]:
        """What ``ask`` answers to slices of ``rows`` rows, in their order, each of ``at_once`` rows at the most.

        Raises TargetError where one row alone is too many.
        """
        found: list[Answer] = []
        first = 0
        while first < rows:
            part = slice(first, min(first + min(self.most, at_once), rows))
            with self.halving(part.stop - part.start):
                found.append(ask(part))
                first = part.stop
        return found

    def by_length(
        self,
        lengths: Sequence[int],
        at_once: Callable[[int], int],
        ask: Callable[..., FloatArray],
        *beside: Sequence[Any],
        most_padding: float = math.inf,
    ) -> FloatArray:
        """What ``ask`` answers to texts of ``lengths`` ``[n]``, of which those of about one length share a batch.

        A batch has ``at_once`` texts of its longest one's length, and no more padding than ``most_padding`` times its
        tokens. ``ask`` is given of each sequence ``beside`` what belongs to the batch's texts.
        """
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        found = np.zeros(len(lengths))
        first = 0
        while first < len(order):
            # A batch is as long as its last text, so it is sized by a text it may not reach: never too large.
            ahead = order[min(first + at_once(lengths[order[first]]), len(order)) - 1]
            chosen = order[first : first + min(self.most, at_once(lengths[ahead]))]
            chosen = chosen[: least_padding([lengths[place] for place in chosen], most_padding)]
            with self.halving(len(chosen)):
                found[chosen] = ask(*([each[place] for place in chosen] for each in beside))
                first += len(chosen)
        return found


def least_padding(lengths: Sequence[int], most: float) -> int:
    """How many of rows of ``lengths``, shortest first, are padded by no more than ``most`` times their tokens."""
    tokens = np.cumsum(lengths)
    padding = np.arange(1, len(lengths) + 1) * lengths - tokens
    return int(np.flatnonzero(padding <= most * tokens)[-1]) + 1
