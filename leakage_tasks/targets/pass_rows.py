"""The number of rows in a forward pass: of all limits, the lowest counts.

The user's batch size, the memory for a pass, the run's own timings and a lack of memory limit it.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import torch

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.log import first_line, log
from leakage_tasks.targets.memory import LOGIT_BYTES, FreedMemory, MemoryBudget, out_of_memory

Answer = TypeVar("Answer")

MOST_ROWS = 1 << 16
FEWEST = 256
"""Initial number of rows."""
SPREAD = 1024
"""Number of rows for a model on several processes. Their timings differ, but all must read equal batches."""
WORTH_IT = 0.95
"""Highest ratio of the time per row to that with half as many rows for which the batch size is doubled again."""
TIMED_PASSES = 2
"""Number of full passes timed at each batch size; the fastest counts."""
TOKENS_ON_CPU = 1 << 11
"""Token positions in a batch on a CPU by default."""
TOKENS_ELSEWHERE = 1 << 17
SMALLER = "load the model in fewer bits (dtype=bfloat16 in --model_args), or use a device with more memory"
SHOWN = 160
"""Characters shown of torch's message, which is a long line for a GPU."""


def is_spread(model: Any) -> bool:
    """Return True if the layers of a `transformers` model are on several processes, which must run each pass
    together."""
    return any(getattr(model, name, None) not in (None, 1) for name in ("_tp_size", "_device_mesh"))


class PassSize:
    """The number of ``rows`` in a forward pass, doubled as long as this lowers the time per row on this device.

    It affects the duration of a run, never its results. A number of rows given as ``fixed`` is never changed.
    """

    def __init__(self, fixed: int | None = None) -> None:
        self.rows = fixed or FEWEST
        self._seen: list[float] = []
        self._before = float("inf")
        self.settled = fixed is not None
        """True if the number of rows does not change any more."""

    def note(self, rows: int, seconds: float) -> None:
        """Record the duration of a pass of ``rows`` rows; passes that are not full are ignored."""
        if self.settled or rows < self.rows:
            return
        self._seen.append(seconds / rows)
        if len(self._seen) < TIMED_PASSES:
            return
        now = min(self._seen)
        self._seen.clear()
        if now < WORTH_IT * self._before:
            self._before = now
            self.rows *= 2
        else:
            self.rows //= 2
            self.settled = True


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
            self._freed.return_if_grown()
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
        """Return the values ``[n, …]`` of ``compute`` for texts, batched with texts of similar length.

        Args:
            lengths: tokens of each text, ``[n]``.
            at_once: number of texts in a batch by the length of its longest text.
            compute: a function of the batch's part of each of ``inputs``.
            *inputs: sequences of n values.
            most_padding: maximum padding of a batch as a share of its other tokens.
        """
        order = sorted(range(len(lengths)), key=lambda index: lengths[index])
        values: list[FloatArray] = []
        first = 0
        while first < len(order):
            # The length of a batch is that of its last text. Size it by a text at or past its end: never too large.
            ahead = order[min(first + at_once(lengths[order[first]]), len(order)) - 1]
            chosen = order[first : first + min(self.most, at_once(lengths[ahead]))]
            chosen = chosen[: rows_within_padding([lengths[index] for index in chosen], most_padding)]
            with self.halving(len(chosen)):
                values.append(compute(*([sequence[index] for index in chosen] for sequence in inputs)))
                first += len(chosen)
        return np.concatenate(values)[np.argsort(order)] if values else np.zeros(0)


class StateBytes(Protocol):
    """The memory that texts take which a model has read before."""

    @property
    def row_bytes(self) -> int:
        """Bytes of a token's state."""

    @property
    def copied_bytes(self) -> float:
        """Bytes that a pass takes for each token before the new ones."""


@dataclass
class PassRows:
    """The number of rows in a forward pass of a causal model, and what limits it.

    ``batch_size`` counts texts of ``max_length`` tokens. By default a pass has the most efficient number of rows,
    limited on other devices than a GPU by a small part of ``memory``; a GPU reports when its memory is full. A CPU gets
    no more tokens at once than suit its caches. ``activation_bytes`` are the bytes of a token at the start of a text,
    and of one after it.
    """

    device: torch.device
    batch_size: int | None
    max_length: int
    vocabulary: int
    activation_bytes: tuple[int, int]
    memory: MemoryBudget
    tuned: PassSize
    limit: RowLimit = field(default_factory=RowLimit)
    """Limit of passes that read one more token of each text."""
    whole_texts: RowLimit = field(default_factory=RowLimit)
    """Limit of passes over whole texts, or over several more tokens of each."""

    @property
    def overlaps(self) -> bool:
        """True if a device computes passes while the host works, and the duration of a pass need not be measured."""
        return self.device.type == "cuda" and (self.batch_size is not None or self.tuned.settled)

    def of(self, states: StateBytes, length: int, read: int = 1, copied: int | None = None) -> int:
        """Return the number of texts of ``length`` tokens, of which a pass reads the last ``read``.

        ``copied`` is the number of tokens whose states are copied for each row, by default all that are not read.
        """
        rows = (self.batch_size or 1) * self.max_length // max(length, 1)
        if self.batch_size is None:
            size = self._row_bytes(states, length, read, length - read if copied is None else copied)
            fitting = int(self.memory.rows // max(size, 1))
            rows = min(self.tuned.rows, MOST_ROWS if self.device.type == "cuda" else max(rows, fitting))
        elif self.device.type == "cpu":
            rows = min(rows, TOKENS_ON_CPU)
        return max(1, min(rows, self.limit.most))

    def of_whole_texts(self, states: StateBytes, length: int, own: int, copied: int | None = None) -> int:
        """Return the number of texts of ``length`` tokens whose last ``own`` are read, with logits at each of them."""
        tokens = TOKENS_ON_CPU
        if self.device.type != "cpu":
            tokens = max(tokens, min(TOKENS_ELSEWHERE, self.with_logits(1)))
        return max(1, min(self.of(states, length, own, copied), tokens // own, self.with_logits(own)))

    def with_logits(self, length: int) -> int:
        """Return the number of texts of ``length`` tokens, with logits at each, that fit in memory; at least 1."""
        return max(1, self.memory.most // (LOGIT_BYTES * self.vocabulary * max(length, 1)))

    def _row_bytes(self, states: StateBytes, length: int, read: int, copied: int) -> float:
        """Return the memory of a row in a pass: its state, one layer's copies and activations, and its logits."""
        first, second = self.activation_bytes
        own = read * (states.row_bytes + first + length * (second - first))
        return own + copied * states.copied_bytes + LOGIT_BYTES * self.vocabulary


def rows_at_once(
    device: torch.device,
    length: int,
    batch_size: int | None,
    max_length: int | None,
    most: int,
    on_cpu: int = TOKENS_ON_CPU,
) -> int:
    """Return the number of rows in one forward pass.

    Args:
        device: the model's device.
        length: tokens of a row.
        batch_size: rows of full length in a pass; None lets the kind of device decide.
        max_length: the full length in tokens; None for ``length``.
        most: upper limit of the result.
        on_cpu: tokens in a pass on a CPU without ``batch_size``.
    """
    tokens = on_cpu if device.type == "cpu" else TOKENS_ELSEWHERE
    if batch_size is not None:
        tokens = batch_size * (max_length or length)
    return max(1, min(tokens // max(length, 1), most))


def rows_within_padding(lengths: Sequence[int], most: float) -> int:
    """Return how many rows, shortest first, share a batch with padding of at most ``most`` times their tokens."""
    tokens = np.cumsum(lengths)
    padding = np.arange(1, len(lengths) + 1) * lengths - tokens
    return int(np.flatnonzero(padding <= most * tokens)[-1]) + 1
