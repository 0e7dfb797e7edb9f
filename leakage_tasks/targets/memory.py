"""What happens where memory runs out: every engine asks about fewer rows at once, and comes to the same figures."""

from __future__ import annotations

import re
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import first_line, log

Answer = TypeVar("Answer")

MOST_ROWS = 1 << 16
CPU_BYTES, CUDA_SHARE = 1 << 28, 0.2
"""Memory for the rows of a batch: bytes on a CPU, a share of what is free on a GPU. Batches that part take more."""
STATE_BYTES = 2 << 30
"""Bytes of states that searches of one model keep at once."""
LOGIT_BYTES = 12
"""Memory a logit takes while a token is chosen by it."""
SMALLER = "load the model in fewer bits (dtype=bfloat16 in --model_args), or use a device with more memory"
SHOWN = 160
"""Characters of what torch says, which for a GPU is a long line."""

_NO_ROOM = re.compile(
    "out of memory|can't allocate memory|not enough memory|alloc_failed|storage size calculation overflowed", re.I
)
"""What torch says in a plain RuntimeError, on some devices and systems, where it has no memory."""


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

    @contextmanager
    def halving(self, rows: int, least: int = 1, remedy: str = SMALLER) -> Iterator[None]:
        """Leave the block early, with ``most`` at half of ``rows``, where there is no memory for that many.

        It is for a block in a loop that goes on until all is done, ``rows`` at a time. Raises TargetError, which names
        ``remedy``, where ``rows`` is no more than ``least``, which cannot be less.
        """
        from accelerate.utils.memory import clear_device_cache

        try:
            yield
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
        self, lengths: Sequence[int], at_once: int, ask: Callable[..., FloatArray], *beside: Sequence[Any]
    ) -> FloatArray:
        """What ``ask`` answers to texts of ``lengths`` ``[n]``, of which those of about one length share a batch.

        It is given of each sequence ``beside`` what belongs to the batch's texts.
        """
        order = sorted(range(len(lengths)), key=lambda place: lengths[place])

        def ask_part(part: slice) -> FloatArray:
            return ask(*([each[place] for place in order[part]] for each in beside))

        found = np.zeros(len(lengths))
        found[order] = np.concatenate([*self.parts(len(order), ask_part, at_once), found[:0]])
        return found


class StateBudget:
    """Model states that searches keep to go on from, all searches of one model together, within :data:`STATE_BYTES`.

    What has ``memory`` is held until it is gone; where there is too much, the oldest loses its memory, which is None
    from then on, and has to be computed again if it is needed.
    """

    def __init__(self) -> None:
        self.most, self.held = STATE_BYTES, 0
        self._holders: dict[int, tuple[weakref.ref[Any], int]] = {}

    def hold(self, holder: Any, size: int) -> None:
        """Count the ``size`` bytes of a holder's memory; older ones lose theirs where that is too much."""
        number = id(holder)
        self._holders[number] = weakref.ref(holder, lambda _: self._forget(number)), size
        self.held += size
        while self.held > self.most and len(self._holders) > 1:
            oldest = next(iter(self._holders))
            found = self._holders[oldest][0]()
            if found is not None:
                found.memory = None
            self._forget(oldest)

    def _forget(self, number: int) -> None:
        self.held -= self._holders.pop(number, (None, 0))[1]


def bytes_for_rows(device: torch.device) -> int:
    """Memory that the rows of a batch may take on ``device`` where the user names no batch size."""
    if device.type != "cuda":
        return CPU_BYTES
    return int(CUDA_SHARE * free_on_gpu(device))


def free_on_gpu(device: torch.device) -> int:
    """Bytes free for tensors on a GPU of CUDA."""
    # What torch holds but does not use is free to us.
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + idle)
