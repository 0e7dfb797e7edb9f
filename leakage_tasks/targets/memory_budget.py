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
SHARE = 0.3
"""Of a run's memory, what one batch takes, what a round answers, and what searches keep to go on from.

The rest is for what all of them look at, and for what is freed and not handed back yet.
"""
COPIES = 1 / 4
"""Of a batch's memory, what copies of prefixes take: of those that few of its rows share."""
CPU_BYTES = 1 << 28
"""The most that the rows of a search take in a pass on a CPU, which gains nothing by more."""
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


def given_memory() -> int | None:
    """The bytes that the user allows; None where nothing was said."""
    return _given.get()


def check_one_row(size: float) -> None:
    """Raise OptionError where the memory that the user allows does not hold one row of ``size`` bytes."""
    given = given_memory()
    if given is not None and size > SHARE * given:
        least = size_words(1.1 * size / SHARE)
        raise OptionError(f"memory={size_words(given)} holds no row of this model: give {least} or more")


def free_on_gpu(device: torch.device) -> int:
    """Bytes free for tensors on a GPU of CUDA."""
    # What torch holds but does not use is free to us.
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + idle)


class MemoryBudget:
    """What one model's passes, and the states that its searches keep to go on from, may take on ``device``.

    A state is the ``memory`` of whoever holds it. Where all of them together are too much, the oldest holder loses its
    memory, which is None from then on, and has to be computed again if it is needed. ``spread`` says that several
    processes hold parts of the model, who must come to the same decisions.
    """

    def __init__(self, device: torch.device | None = None, spread: bool = False) -> None:
        self.device, self.held = device or torch.device("cpu"), 0
        self._usual = SPREAD_BYTES if spread else None
        self._holders: dict[int, tuple[weakref.ref[Any], int]] = {}

    @property
    def most(self) -> int:
        """Bytes of states that may be held at once, and of those that a round may answer."""
        return int(SHARE * self.whole)

    @property
    def batch(self) -> int:
        """Bytes that a batch may take."""
        return int(SHARE * self.whole)

    @property
    def rows(self) -> int:
        """Bytes that the rows of a search may take in a pass where the user names no batch size."""
        return self._on_device(1 - COPIES, CPU_BYTES)

    @property
    def copies(self) -> int:
        """Bytes that copies of what stands before some of those rows may take besides."""
        return self._on_device(COPIES, CPU_BYTES // 2)

    def _on_device(self, share: float, on_cpu: int) -> int:
        most = int(share * self.batch)
        return most if self.device.type == "cuda" else min(on_cpu, most)

    @property
    def whole(self) -> int:
        """Bytes that a batch, a round's answers and all states may take together."""
        if self._usual is None:
            # Found out once: what is held is free no longer.
            self._usual = _free(self.device)
        return given_memory() or self._usual

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
