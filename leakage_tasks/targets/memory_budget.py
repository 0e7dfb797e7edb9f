"""How much memory a run may take for what it computes: what the user allows, or a share of what is free."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.sizes import size_words

FREE_SHARE = 0.4
"""Of the memory that is free, what a run takes unless told otherwise."""
BATCH_SHARE = 0.5
"""Of a run's memory, what the rows of one batch take; the rest is for states that searches go on from."""
CPU_BYTES = 1 << 28
"""The most that the rows of a search take in a batch on a CPU. Batches that part take more."""

SPREAD_BYTES = 4 * 10**9
"""What a process of several that hold parts of one model takes unless told otherwise: for all the same."""

_given: ContextVar[int | None] = ContextVar("memory", default=None)


@contextmanager
def memory_within(given: int | None) -> Iterator[None]:
    """Let what runs inside, in its attacks' threads too, keep to so many bytes; None for a share of what is free."""
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)


def bytes_for_batch(device: torch.device) -> int:
    """Memory that a batch may take on ``device``."""
    return int(BATCH_SHARE * (_given.get() or _free(device)))


def bytes_for_rows(device: torch.device) -> int:
    """The same for rows of a search where the user names no batch size; on a CPU many gain nothing."""
    return _of_rows(device, _given.get() or _free(device))


def _of_rows(device: torch.device, size: int) -> int:
    most = int(BATCH_SHARE * size)
    return most if device.type == "cuda" else min(CPU_BYTES, most)


def check_one_row(device: torch.device, size: float) -> None:
    """Raise OptionError where the memory that the user allows does not hold one row of ``size`` bytes."""
    given = _given.get()
    if given is not None and size > BATCH_SHARE * given:
        least = size_words(1.1 * size / BATCH_SHARE)
        raise OptionError(f"memory={size_words(given)} holds no row of this model: give {least} or more")


def free_on_gpu(device: torch.device) -> int:
    """Bytes free for tensors on a GPU of CUDA."""
    # What torch holds but does not use is free to us.
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + idle)


class StateBudget:
    """Model states that searches keep to go on from, all searches of one model together, within the run's memory.

    What has ``memory`` is held until it is gone; where there is too much, the oldest loses its memory, which is None
    from then on, and has to be computed again if it is needed. ``spread`` says that several processes hold parts of
    the model, who must come to the same decisions.
    """

    def __init__(self, device: torch.device | None = None, spread: bool = False) -> None:
        self.device, self.held = device or torch.device("cpu"), 0
        self._usual = SPREAD_BYTES if spread else None
        self._holders: dict[int, tuple[weakref.ref[Any], int]] = {}

    @property
    def most(self) -> int:
        """Bytes that may be held at once."""
        return int((1 - BATCH_SHARE) * self._all)

    @property
    def rows(self) -> int:
        """Bytes that the rows of a pass may take."""
        return _of_rows(self.device, self._all)

    @property
    def _all(self) -> int:
        if self._usual is None:
            # Found out once: what is held is free no longer.
            self._usual = _free(self.device)
        return _given.get() or self._usual

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


def _free(device: torch.device) -> int:
    """A run's share of the memory that is free on ``device``; processes of one machine share its memory equally."""
    if device.type == "cuda":
        return int(FREE_SHARE * free_on_gpu(device))
    import psutil

    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return int(FREE_SHARE * psutil.virtual_memory().available / processes)
