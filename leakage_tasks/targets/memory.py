"""Memory: what a run may take, what a pass takes, its lack, and the return of freed memory to the system."""

from __future__ import annotations

import ctypes
import heapq
import math
import os
import re
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import psutil
import torch

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import log
from leakage_tasks.core.sizes import size_words

FREE_SHARE = 0.4
"""Share of the free memory that a run takes by default."""
SHARE = 0.3
"""Share of a run's memory for each of: one batch, the answers of a scheduling step, and the KV caches of searches.

The rest is for tensors that all of them use, and for freed memory that is not returned yet.
"""
COPIES = 1 / 4
"""Share of a batch's memory that is left for attention over a shared context."""
CPU_BYTES = 1 << 28
"""Maximum bytes of a search's rows in a pass on a CPU, where larger batches are not faster."""
MUCH_AGAIN = 0.1
"""Rows that are read again, as a share of the others, from which on the user is warned."""
QUEUED = 1000
"""Number of freed KV caches in the queue that are left there."""
SPREAD_BYTES = 4 * 10**9
"""Default memory in bytes of a process that holds a part of a model; the number is equal for all processes."""
LOGIT_BYTES = 12
"""Bytes of a logit while the next token is chosen."""
ACTIVATIONS = 16
"""Bytes for each attention weight of a row, and for each unit of its widest layer, during a pass: four float32."""
GROWN = 1 << 26
"""Growth of the process in bytes that triggers a return of freed memory."""
GIVEN_SHARE = 1 / 12
"""Growth that triggers it as a share of the memory that the user allows, if that is less than :data:`GROWN`."""
PAUSE = 0.1
"""Seconds between two checks."""
BUSY = 0.05
"""Maximum share of the time that returning memory may take."""

_NO_ROOM = re.compile(
    "out of memory|can't allocate memory|not enough memory|alloc_failed|storage size calculation overflowed", re.I
)
"""Messages of a plain RuntimeError that mean a lack of memory, on some devices and systems."""

_allowed: ContextVar[int | None] = ContextVar("memory", default=None)


@contextmanager
def memory_within(size: int | None) -> Iterator[None]:
    """Limit the memory of the block and its attacks to ``size`` bytes; None for a share of the free memory."""
    token = _allowed.set(size)
    try:
        yield
    finally:
        _allowed.reset(token)


def allowed_memory() -> int | None:
    """Return the bytes that the user allows, or None if the user set no limit."""
    return _allowed.get()


def check_one_row(size: float) -> None:
    """Raise OptionError if one row of ``size`` bytes exceeds the memory that the user allows."""
    allowed = allowed_memory()
    if allowed is not None and size > SHARE * allowed:
        least = size_words(1.1 * size / SHARE)
        raise OptionError(f"memory={size_words(allowed)} is too little for one row of this model: set {least} or more")


def free_on_gpu(device: torch.device) -> int:
    """Return the bytes that tensors can still take on a CUDA GPU."""
    # Memory that torch has reserved and does not use is free for new tensors.
    idle = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(torch.cuda.mem_get_info(device)[0] + idle)


class MemoryBudget:
    """The memory that one model's passes and its searches' KV caches may take on ``device``.

    A KV cache is the ``memory`` attribute of its holder. If all caches together exceed the budget, the attribute of the
    holder that is needed last becomes None, and its cache is computed again when it is needed. ``spread`` is True if
    several processes hold parts of the model; these must make equal decisions.
    """

    def __init__(self, device: torch.device | None = None, spread: bool = False) -> None:
        self.device, self.held = device or torch.device("cpu"), 0
        self._usual = SPREAD_BYTES if spread else None
        self._holders: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._serial = 0
        self._queue: list[tuple[float, int]] = []
        self.read = self.read_again = 0
        """Number of texts that were held, and of texts that were read again because their KV cache was dropped."""

    @property
    def most(self) -> int:
        """The maximum bytes of each of: one batch, the answers of a scheduling step, and all KV caches together."""
        return int(SHARE * self.whole)

    @property
    def rows(self) -> int:
        """The maximum bytes of a search's rows in a pass if the user sets no batch size."""
        most = int((1 - COPIES) * self.most)
        return most if self.device.type == "cuda" else min(CPU_BYTES, most)

    @property
    def whole(self) -> int:
        """The maximum bytes of a batch, the answers of a scheduling step and all KV caches together."""
        if self._usual is None:
            # Measured once, before memory is taken.
            self._usual = _free(self.device)
        return allowed_memory() or self._usual

    def hold(self, holder: Any, size: int, needed: float | None = None) -> None:
        """Add the ``size`` bytes of a holder's KV cache; drop others if the total exceeds the budget.

        The caches with the largest ``needed`` are dropped first: the cost at which a best-first search needs them.
        Without it, the oldest are dropped first, which a depth-first search needs last.
        """
        self._serial += 1
        number = self._serial
        self._holders[number] = weakref.ref(holder, lambda _: self._forget(number)), size
        self.held += size
        while self.held > self.most and len(self._holders) > 1:
            _, dropped = heapq.heappop(self._queue)
            owner = self._holders[dropped][0]() if dropped in self._holders else None
            if owner is not None:
                owner.memory = None
            self._forget(dropped)
        heapq.heappush(self._queue, (float(number) if needed is None else -max(needed, 0.0), number))
        if len(self._queue) > 2 * len(self._holders) + QUEUED:
            self._queue = [entry for entry in self._queue if entry[1] in self._holders]
            heapq.heapify(self._queue)

    def _forget(self, number: int) -> None:
        self.held -= self._holders.pop(number, (None, 0))[1]


@contextmanager
def warning_of_rereading(targets: Iterable[Any]) -> Iterator[None]:
    """Warn after the block if too little memory for the searches of ``targets`` made it much slower."""
    budgets = {id(states): states for target in targets if (states := getattr(target, "states", None)) is not None}
    before = [(states.read, states.read_again) for states in budgets.values()]
    yield
    for states, (read, again) in zip(budgets.values(), before, strict=True):
        more, total = states.read_again - again, states.read - read
        if more > MUCH_AGAIN * total:
            log.warning(
                "memory=%s: %d rows were read again besides %d, since the searches had too little memory for their KV "
                "caches: set a larger memory=, or a smaller batch_size, if the run takes too long; the results are "
                "unaffected",
                *(size_words(states.whole), more, total),
            )


def _free(device: torch.device) -> int:
    """Return a run's share of the free memory on ``device``; processes on one machine get equal shares."""
    if device.type == "cuda":
        return int(FREE_SHARE * free_on_gpu(device))
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    return int(FREE_SHARE * psutil.virtual_memory().available / processes)


def activation_bytes(config: Any, length: int) -> int:
    """Return the bytes of a layer's activations for one token after ``length`` others; ``config`` is a text model's."""
    hidden, heads = getattr(config, "hidden_size", 0), getattr(config, "num_attention_heads", 0)
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    # Some models state a size for each layer.
    widest = max(inner) if isinstance(inner, Sequence) else inner
    return ACTIVATIONS * (heads * length + widest)


def out_of_memory(error: BaseException) -> bool:
    """Return True if an exception means that a device or the machine has no memory left."""
    from accelerate.utils.memory import should_reduce_batch_size

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    if not isinstance(error, RuntimeError):
        return False
    return bool(_NO_ROOM.search(str(error))) or should_reduce_batch_size(RuntimeError(str(error)))


def _trim() -> Callable[[int], int] | None:
    """Return ``malloc_trim`` of the GNU C library, which releases whole free pages, or None on other systems."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return trim


class FreedMemory:
    """Monitor of a process' size between forward passes, which makes the C library return freed memory.

    GNU's allocator keeps freed room between blocks that are still in use, and often does not reuse it for a tensor of
    equal size. The process would therefore grow with each pass, beyond the limits of :class:`MemoryBudget`.
    """

    def __init__(self) -> None:
        self._trim = _trim()
        self._process = psutil.Process()
        self._usual: int | None = None
        self._next = 0.0

    def return_if_grown(self) -> None:
        """Return freed memory to the system if the process has grown past the limit since the first call or the last
        return."""
        started = time.monotonic()
        if self._trim is None or started < self._next:
            return
        self._next = started + PAUSE
        size = self._process.memory_info().rss
        if self._usual is None:
            self._usual = size
        elif size > self._usual + min(GROWN, GIVEN_SHARE * (allowed_memory() or math.inf)):
            self._trim(0)
            self._usual = self._process.memory_info().rss
            ended = time.monotonic()
            # Each pass allocates its memory again, so growth may recur after every pass; limit the share of time.
            self._next = ended + max(PAUSE, (ended - started) / BUSY)
