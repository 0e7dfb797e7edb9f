"""Reaction to a lack of memory: passes get fewer rows, and the results stay equal."""

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
"""Bytes of a logit while the next token is chosen."""
ACTIVATIONS = 16
"""Bytes for each attention weight of a row, and for each unit of its widest layer, during a pass: four float32."""
SMALLER = "load the model in fewer bits (dtype=bfloat16 in --model_args), or use a device with more memory"
SHOWN = 160
"""Characters shown of torch's message, which is a long line for a GPU."""

_NO_ROOM = re.compile(
    "out of memory|can't allocate memory|not enough memory|alloc_failed|storage size calculation overflowed", re.I
)
"""Messages of a plain RuntimeError that mean a lack of memory, on some devices and systems."""


def activation_bytes(config: Any, length: int) -> int:
    """Return the bytes of a layer's activations for one token after ``length`` others; ``config`` is a text model's."""
    hidden, heads = getattr(config, "hidden_size", 0), getattr(config, "num_attention_heads", 0)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    # Some models state a size for each layer.
    widest = max(inner) if isinstance(inner, Sequence) else inner
    return ACTIVATIONS * (heads * length + widest)


def out_of_memory(error: BaseException) -> bool:
    """Return whether an exception means that a device or the machine has no memory left."""
    from accelerate.utils.memory import should_reduce_batch_size

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    return bool(_NO_ROOM.search(str(error))) or should_reduce_batch_size(RuntimeError(str(error)))


class RowLimit:
    """The maximum number ``most`` of rows in a pass, halved each time memory runs out."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self.most = most
        self._freed = FreedMemory()

    @contextmanager
    def halving(self, rows: int, least: int = 1, remedy: str = SMALLER) -> Iterator[None]:
        """Leave the block and set ``most`` to half of ``rows`` if memory runs out in it.

        It is for the body of a loop that processes ``rows`` rows at a time until all are done. Raises TargetError with
        ``remedy`` if there is no memory for ``least`` rows, the smallest possible number.
        """
        from accelerate.utils.memory import clear_device_cache

        try:
            yield
            self._freed.look()
            return
        except Exception as error:
            if not out_of_memory(error):
                raise
            reason = first_line(error)[:SHOWN]
            if rows <= least:
                what = "a single text" if rows <= 1 else f"{rows} texts that have to be read together"
                raise TargetError(f"out of memory for {what} ({reason}): {remedy}") from None
            # The frames of the failed calls still hold their intermediate results.
            traceback.clear_frames(error.__traceback__)
        self.most = max(least, -(-rows // 2))
        log.info("out of memory for %d rows (%s): %d rows at a time from now on", rows, reason, self.most)
        # Free unreferenced tensors, on any kind of device.
        clear_device_cache(garbage_collection=True)

    def parts(self, rows: int, compute: Callable[[slice], Answer], at_once: int = MOST_ROWS) -> list[Answer]:
        """Return the results of ``compute`` for slices of ``rows`` rows, in order, of at most ``at_once`` rows each.

        Raises TargetError if a single row does not fit into memory.
        """
        results: list[Answer] = []
        first = 0
        while first < rows:
            part = slice(first, min(first + min(self.most, at_once), rows))
            with self.halving(part.stop - part.start):
                results.append(compute(part))
                first = part.stop
        return results

    def by_length(
        self,
        lengths: Sequence[int],
        at_once: Callable[[int], int],
        compute: Callable[..., FloatArray],
        *inputs: Sequence[Any],
        most_padding: float = math.inf,
    ) -> FloatArray:
        """Return the values ``[n]`` of ``compute`` for texts, batched with texts of similar length.

        Args:
            lengths: tokens of each text, ``[n]``.
            at_once: number of texts in a batch by the length of its longest text.
            compute: a function of the batch's part of each of ``inputs``.
            *inputs: sequences of n values.
            most_padding: maximum padding of a batch as a share of its other tokens.
        """
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        values = np.zeros(len(lengths))
        first = 0
        while first < len(order):
            # The length of a batch is that of its last text. Size it by a text at or past its end: never too large.
            ahead = order[min(first + at_once(lengths[order[first]]), len(order)) - 1]
            chosen = order[first : first + min(self.most, at_once(lengths[ahead]))]
            chosen = chosen[: rows_within_padding([lengths[index] for index in chosen], most_padding)]
            with self.halving(len(chosen)):
                values[chosen] = compute(*([sequence[index] for index in chosen] for sequence in inputs))
                first += len(chosen)
        return values


def rows_within_padding(lengths: Sequence[int], most: float) -> int:
    """Return how many rows, shortest first, share a batch with padding of at most ``most`` times their tokens."""
    tokens = np.cumsum(lengths)
    padding = np.arange(1, len(lengths) + 1) * lengths - tokens
    return int(np.flatnonzero(padding <= most * tokens)[-1]) + 1
