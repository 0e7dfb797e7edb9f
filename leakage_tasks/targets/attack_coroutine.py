"""An attack as a coroutine, which waits for the answers to its requests.

Each attack is plain sequential code in a greenlet: an attack that submits a request gives up its turn until
:mod:`~leakage_tasks.targets.scheduler` has answered it. All attacks run in the thread of the scheduler, one at a time.
Each has its own context variables and its own grad mode of torch. Other modes of a thread, such as inference mode, must
not be on while a request is submitted.

A stage of an attack, such as a beam search, can be computed for many attacks at once (:func:`submit_jointly`). A joint
attack, a coroutine of its own, then makes the model requests of all of its members, which wait for the result.
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from greenlet import getcurrent, greenlet

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.batching import Capacity, Many, Outcome, Part, PendingRequest, answers_of

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Result = TypeVar("Result")

ALONE = object()
"""Answer to a joint request that has no company: the attack computes the stage itself."""


def submit(
    kind: Hashable,
    many: Many,
    request: Any,
    rows: int,
    capacity: Capacity,
    splits: bool = False,
) -> Any:
    """Return the answer of ``many`` to one request, batched with requests of equal ``kind`` from other attacks.

    Outside of :func:`~leakage_tasks.targets.scheduler.run_concurrently` the request is answered at once, alone.

    Args:
        kind: requests of equal kind share batches.
        many: answers several requests, in order. If it returns a function that returns the answers, other attacks go
            on before it is called.
        request: the request.
        rows: number of texts read for it.
        capacity: number of such rows that fit in a pass, and the memory for the answers. It determines the share of
            the time, and when further attacks start: none once the requests fill two passes, or a pass whose
            answers would fill the memory.
        splits: True for a request whose rows may be read in several scheduling steps, so that passes are full; it
            implements :class:`~leakage_tasks.targets.batching.Splits`.
    """
    attack = _current()
    if attack is None:
        return answers_of(many, [request])[0]
    return attack.submit(PendingRequest(kind, many, request, rows, capacity, splits, attack.rows_read))


def submit_jointly(
    kind: Hashable,
    many: Callable[[Sequence[Request]], Sequence[Answer]],
    request: Request,
    rows: int,
    capacity: Capacity,
) -> Answer:
    """Return the answer of ``many`` to one request, computed jointly with requests of equal ``kind`` of other attacks.

    In contrast to :func:`submit`, ``many`` may itself submit requests to the model. It calls :func:`share_rows` before
    each of them.

    Args:
        kind: requests of equal kind are computed jointly.
        many: answers several requests, in order.
        request: the request.
        rows: usual number of rows of a request to the model for it.
        capacity: number of such rows that fit in a pass, and the memory for the answers. The oldest requests that fill
            half of a pass or the memory are answered jointly.
    """
    attack = _current()
    if attack is not None and not attack.members:
        answer = attack.submit(PendingRequest(kind, many, request, rows, capacity, joint=True))
        if answer is not ALONE:
            return cast(Answer, answer)
    return many([request])[0]


def share_rows(rows: IntArray) -> None:
    """State how many rows of the next request to the model belong to each member of a joint attack, in order."""
    attack = _current()
    if attack is not None:
        attack.shares = rows


def _current() -> AttackCoroutine[Any] | None:
    """Return the attack that runs this code, if any."""
    running = getcurrent()
    return running if isinstance(running, AttackCoroutine) else None


class AttackCoroutine(greenlet, Generic[Result]):
    """One attack, or a joint attack for ``members``, which runs until it submits a request or ends."""

    def __init__(
        self,
        number: int,
        attack: Callable[[], Result],
        serial: int,
        members: Sequence[AttackCoroutine[Any]] = (),
    ) -> None:
        super().__init__(attack)
        # A greenlet's own context is empty.
        self.gr_context = contextvars.copy_context()
        self.number, self.serial, self.members = number, serial, members
        self.question: PendingRequest | None = None
        self.result: Result | None = None
        self.error: Exception | None = None
        self.seconds = 0.0
        self.rows_read = 0
        self.shares: IntArray = np.zeros(0, dtype=np.int64)
        """Number of rows of the pending request for each of ``members``."""

    @property
    def pending(self) -> PendingRequest:
        """The request that waits for an answer."""
        assert self.question is not None
        return self.question

    def submit(self, question: PendingRequest) -> Any:
        """Give up the turn until the request is answered."""
        self.question, has_grad = question, torch.is_grad_enabled()
        assert self.parent is not None
        self.parent.switch()
        torch.set_grad_enabled(has_grad)
        return question.answer()

    def resume(self) -> bool:
        """Start the attack, or let it go on, until it submits a request or ends. Return True if it waits for an answer.

        Its seconds grow by the time that this takes.
        """
        started, has_grad = time.perf_counter(), torch.is_grad_enabled()
        self.question = None
        try:
            self.result = self.switch()
        except Exception as error:  # raised again, unless it is a joint attack that fails
            self.error = error
        finally:
            torch.set_grad_enabled(has_grad)
        self.seconds += time.perf_counter() - started
        return not self.dead

    def note(self, part: Part, outcome: Outcome, seconds: float) -> Iterator[tuple[int, int]]:
        """Record the outcome of a part of a request, and its time; yield the numbers of attacks and of their rows."""
        self.seconds += seconds
        part.question.note(outcome)
        first, rows = part.first, part.rows
        self.rows_read += rows
        if not self.members:
            yield self.number, rows
            return
        ends = np.cumsum(self.shares)
        own = np.minimum(ends, first + rows) - np.maximum(ends - self.shares, first)
        for index in np.flatnonzero(own > 0).tolist():
            self.members[index].rows_read += int(own[index])
            yield self.members[index].number, int(own[index])

    def answer_members(self) -> None:
        """Pass the results of this joint attack and its time to its members; if it failed, they go on alone."""
        if self.error is not None:
            log.debug("%d attacks go on alone: %s", len(self.members), type(self.error).__name__)
        answers = [ALONE] * len(self.members) if self.error is not None else cast(Sequence[Any], self.result)
        for member, answer in zip(self.members, answers, strict=True):
            member.seconds += self.seconds / len(self.members)
            member.pending.settle(answer)
        self.result = None
