"""Attacks on many canaries that advance together, so that one forward pass serves the requests of all of them.

Each attack runs in its own thread as plain sequential code, and only one thread runs at a time. An attack that submits
a request to the model waits. Once all attacks wait, a pass of each kind of request is answered, for the attacks that
started first; then these attacks continue. If requests can be split, only the rows that fill a pass are answered; the
others wait for the next scheduling step. So attacks end one after another at a steady rate, and the contents of a batch
depend on the attacks alone, never on timing.

A stage of an attack, such as a beam search, can be computed for many attacks at once (:func:`submit_jointly`). A joint
attack, with its own thread, then makes the model requests of all of its members, which wait for the result.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Generic, TypeVar, cast

import numpy as np

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.log import log
from leakage_tasks.targets.batching import Capacity, PendingRequest, RequestPart, Splitter, rows_to_serve

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Result = TypeVar("Result")
NextAttack = Callable[[int], int | None]
"""A function that returns the index of the attack to start next, or None to start no attack now.

Its argument is the number of running attacks, or :data:`MOST_AT_ONCE` if their requests already fill passes. It is
called in every scheduling step.
"""

OnRows = Callable[[int, int], None]
"""A function that is called with the index of an attack and the number of rows read for it."""

MOST_AT_ONCE = 1024
"""Maximum number of running attacks; each is a thread."""
FILLED = 2.0
"""Passes that the pending requests must fill before no further attack starts. The first request of an attack is small,
and later ones wait their turn, so attacks start in groups that also fill passes."""

_here = threading.local()
_ALONE = object()
"""Answer to a joint request that has no company: the attack computes the stage itself."""


def submit(
    kind: Hashable,
    many: Callable[[Sequence[Request]], Sequence[Answer]],
    request: Request,
    rows: int,
    capacity: Capacity,
    in_parts: Splitter | None = None,
) -> Answer:
    """Return the answer of ``many`` to one request, batched with requests of equal ``kind`` from other attacks.

    Outside of :func:`run_concurrently` the request is answered at once, alone.

    Args:
        kind: requests of equal kind share batches.
        many: answers several requests, in order.
        request: the request.
        rows: number of texts read for it.
        capacity: number of such rows that fit in a pass, and the memory for the answers. It determines the share of
            the time, and when further attacks start: none once the requests fill :data:`FILLED` passes, or a pass whose
            answers would fill the memory.
        in_parts: functions that split the request, so that its rows may be read in several scheduling steps and passes
            are full; None for a request that is answered whole.
    """
    attack: _Attack[Any] | None = getattr(_here, "attack", None)
    if attack is None:
        return many([request])[0]
    whole = RequestPart(many, request, rows)
    answer: Answer = attack.submit(PendingRequest(kind, whole, capacity, in_parts, attack.rows_read))
    return answer


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
            :data:`FILLED` passes or the memory are answered jointly.
    """
    attack: _Attack[Any] | None = getattr(_here, "attack", None)
    if attack is not None and not attack.members:
        answer = attack.submit(PendingRequest(kind, RequestPart(many, request, rows), capacity, joint=True))
        if answer is not _ALONE:
            return cast(Answer, answer)
    return many([request])[0]


def share_rows(rows: IntArray) -> None:
    """State how many rows of the next request to the model belong to each member of a joint attack, in order."""
    attack: _Attack[Any] | None = getattr(_here, "attack", None)
    if attack is not None:
        attack.shares = rows


@dataclass(frozen=True)
class Done(Generic[Result]):
    """A finished attack: its index, its result, and its time in seconds, including its share of the passes."""

    number: int
    result: Result = field(repr=False)
    seconds: float


class _Abandoned(BaseException):
    """Signal that ends an attack whose run is over."""


class _Attack(threading.Thread, Generic[Result]):
    """The thread of one attack, or of a joint attack for ``members``, which runs until it submits a request or ends."""

    def __init__(
        self,
        number: int,
        attack: Callable[[], Result],
        back: SimpleQueue[None],
        serial: int,
        members: Sequence[_Attack[Any]] = (),
    ) -> None:
        super().__init__(name=f"attack {number}", daemon=True)
        self.number, self.serial, self.members = number, serial, members
        self._attack, self._back = attack, back
        # In CPython a queue passes the turn on faster than a semaphore does.
        self._turn: SimpleQueue[None] = SimpleQueue()
        self._context = contextvars.copy_context()
        self.question: PendingRequest | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.rows_read = 0
        self.shares: IntArray = np.zeros(0, dtype=np.int64)
        """Number of rows of the pending request for each of ``members``."""
        self.abandoned = False

    def run(self) -> None:
        """Run the attack, starting when it first gets the turn."""
        _here.attack = self
        try:
            self._wait()
            self.result = self._context.run(self._attack)
        except BaseException as error:  # raised again in the thread that waits for the attack
            self.error = error
        finally:
            self.question = None
            # A joint attack holds the searches of its members.
            del self._attack
            self._back.put(None)

    def _wait(self) -> None:
        self._turn.get()
        if self.abandoned:
            raise _Abandoned

    @property
    def pending(self) -> PendingRequest:
        """The request that waits for an answer."""
        assert self.question is not None
        return self.question

    def submit(self, question: PendingRequest) -> Any:
        """Give up the turn until the request is answered."""
        self.question = question
        self._back.put(None)
        self._wait()
        return question.answer()

    def resume(self) -> bool:
        """Let the attack run until it submits a request or ends. Return True if it waits for an answer."""
        started = time.perf_counter()
        self.question = None
        self._turn.put(None)
        self._back.get()
        self._add_seconds(time.perf_counter() - started)
        return self.question is not None

    def _add_seconds(self, seconds: float) -> None:
        for attack in self.members or (self,):
            attack.seconds += seconds / max(len(self.members), 1)

    def note(self, part: RequestPart, seconds: float) -> Iterator[tuple[int, int]]:
        """Record the answer to a part of the request, and its time; yield the numbers of attacks and of their rows."""
        self._add_seconds(seconds)
        first = self.pending.rows_read
        self.pending.note(part)
        self.rows_read += part.rows
        if not self.members:
            yield self.number, part.rows
            return
        ends = np.cumsum(self.shares)
        rows = np.minimum(ends, first + part.rows) - np.maximum(ends - self.shares, first)
        for index in np.flatnonzero(rows > 0).tolist():
            self.members[index].rows_read += int(rows[index])
            yield self.members[index].number, int(rows[index])

    def answer_members(self) -> None:
        """Pass the results of this joint attack to its members; if it failed, they go on alone."""
        self.join()
        if self.error is not None:
            log.debug("%d attacks go on alone: %s", len(self.members), type(self.error).__name__)
        answers = [_ALONE] * len(self.members) if self.error is not None else cast(Sequence[Any], self.result)
        for member, answer in zip(self.members, answers, strict=True):
            member.pending.settle(answer)
        self.result = None

    def abandon(self) -> None:
        """End the attack, which waits or is about to wait."""
        self.abandoned = True
        self._turn.put(None)


def in_order(numbers: Iterable[int]) -> NextAttack:
    """Return a function that starts attacks in the given order, until :data:`MOST_AT_ONCE` are running."""
    left = iter(numbers)
    return lambda under_way: next(left, None) if under_way < MOST_AT_ONCE else None


def run_concurrently(
    attacks: Sequence[Callable[[], Result]], next_attack: NextAttack | None = None, on_rows: OnRows | None = None
) -> Generator[Done[Result], None, None]:
    """Run attacks so that they advance together; yield each result as soon as its attack ends.

    Attacks start in their order, or in that of ``next_attack``, until their requests fill passes. An error in one
    attack ends all of them; if several fail in one step, the error of the first is raised. ``on_rows`` is called with
    the index of an attack and the number of rows read for it.
    """
    next_attack = next_attack or in_order(range(len(attacks)))
    run = _Run[Result]()
    try:
        while True:
            load = _Load([*run.waiting, *run.apart])
            while (number := next_attack(MOST_AT_ONCE if load.is_full else run.under_way)) is not None:
                attack = run.begin(number, attacks[number])
                yield from run.resume(attack)
                load.add(attack)
            yield from run.join_attacks()
            if not run.waiting:
                return
            for number, rows in _answer(run.waiting):
                if on_rows is not None:
                    on_rows(number, rows)
            yield from run.go_on()
    finally:
        run.end()


class _Run(Generic[Result]):
    """The attacks of a run: ``waiting`` for an answer of the model, or ``apart`` until they are joined to others."""

    def __init__(self) -> None:
        self.waiting: list[_Attack[Any]] = []
        self.apart: list[_Attack[Any]] = []
        self.under_way = 0
        """Number of attacks that have begun and not ended, without joint attacks."""
        self._begun: list[_Attack[Any]] = []
        self._back: SimpleQueue[None] = SimpleQueue()

    def begin(self, number: int, function: Callable[[], Any], members: Sequence[_Attack[Any]] = ()) -> _Attack[Any]:
        """Start the thread of an attack."""
        serial = members[0].serial if members else len(self._begun)
        attack = _Attack[Any](number, function, self._back, serial, members)
        self._begun.append(attack)
        self.under_way += not members
        attack.start()
        return attack

    def resume(self, attack: _Attack[Any]) -> Iterator[Done[Result]]:
        """Let an attack go on; yield its result, or the results of its members, if they end."""
        if attack.resume():
            (self.apart if attack.pending.joint else self.waiting).append(attack)
        elif attack.members:
            attack.answer_members()
            for member in attack.members:
                yield from self.resume(member)
        else:
            self.under_way -= 1
            yield _done(attack)

    def go_on(self) -> Iterator[Done[Result]]:
        """Let the attacks go on whose requests are answered; yield the results of attacks that end."""
        waiting, self.waiting = self.waiting, []
        for attack in waiting:
            if attack.question is not None and not attack.question.answered:
                self.waiting.append(attack)
            else:
                yield from self.resume(attack)
        self.waiting.sort(key=lambda attack: attack.serial)

    def join_attacks(self) -> Iterator[Done[Result]]:
        """Join attacks with requests of one kind until requests fill :data:`FILLED` passes, the oldest attacks first.

        Yield the results of attacks that end.
        """
        while self.apart and _Load(self.waiting).passes < FILLED:
            yield from self.resume(self._joined(self._take_group()))
            self.waiting.sort(key=lambda attack: attack.serial)

    def _joined(self, group: Sequence[_Attack[Any]]) -> _Attack[Any]:
        """Return the joint attack for a group, or the only attack of the group, which goes on alone."""
        if len(group) == 1:
            group[0].pending.settle(_ALONE)
            return group[0]
        parts = [attack.pending.whole for attack in group]
        return self.begin(group[0].number, partial(parts[0].many, [part.request for part in parts]), group)

    def _take_group(self) -> list[_Attack[Any]]:
        """Remove the next attacks to join: the oldest that wait for company of one kind, as many as fill passes."""
        self.apart.sort(key=lambda attack: attack.serial)
        kind, load = self.apart[0].pending.kind, _Load()
        group: list[_Attack[Any]] = []
        for attack in self.apart:
            if attack.pending.kind == kind and not load.is_full:
                group.append(attack)
                load.add(attack)
        taken = {id(attack) for attack in group}
        self.apart = [attack for attack in self.apart if id(attack) not in taken]
        return group

    def end(self) -> None:
        """End all attacks that have not ended."""
        left = [attack for attack in self._begun if attack.is_alive()]
        for attack in left:
            attack.abandon()
        for attack in left:
            attack.join()


def _done(attack: _Attack[Result]) -> Done[Result]:
    attack.join()
    if attack.error is not None:
        raise attack.error
    assert attack.result is not None
    return Done(attack.number, attack.result, attack.seconds)


class _Load:
    """The passes and the memory that the pending requests of attacks fill."""

    def __init__(self, attacks: Iterable[_Attack[Any]] = ()) -> None:
        self.passes = self._held = self._answers = 0.0
        for attack in attacks:
            self.add(attack)

    def add(self, attack: _Attack[Any]) -> None:
        """Add the pending request of an attack."""
        if (question := attack.question) is not None:
            self.passes += question.passes
            self._held += question.held_memory
            self._answers += question.answer_memory

    @property
    def is_full(self) -> bool:
        """True if the requests fill :data:`FILLED` passes, or if the attacks take all the memory for answers."""
        memory = self._held + self._answers if self.passes >= 1 else self._held
        return self.passes >= FILLED or memory >= 1


def _answer(waiting: Sequence[_Attack[Any]]) -> Iterator[tuple[int, int]]:
    """Answer the pending requests, batched by kind; yield each attack's index and number of rows read.

    The other rows of requests that can be split wait for the next scheduling step.
    """
    kinds: dict[Hashable, list[tuple[_Attack[Any], PendingRequest]]] = {}
    for attack in waiting:
        kinds.setdefault(attack.pending.kind, []).append((attack, attack.pending))
    for asking in kinds.values():
        started, now = time.perf_counter(), rows_to_serve([question for _, question in asking])
        chosen = [
            (attack, question, question.part(rows))
            for (attack, question), rows in zip(asking, now, strict=True)
            if rows or not question.rows
        ]
        _answer_alike([part for _, _, part in chosen])
        # A part's share of the passes is its share of the time.
        shares = [part.rows / question.capacity.rows for _, question, part in chosen]
        seconds, whole = time.perf_counter() - started, sum(shares)
        for (attack, _, part), share in zip(chosen, shares, strict=True):
            yield from attack.note(part, seconds * (share / whole if whole else 1 / len(chosen)))


def _answer_alike(parts: Sequence[RequestPart]) -> None:
    """Answer requests of one kind together; if that fails, one by one, so that each error reaches its own attack."""
    many = parts[0].many
    try:
        answers = many([part.request for part in parts])
    except Exception as error:
        if len(parts) == 1:
            parts[0].error = error
            return
        log.debug("%d requests are answered one by one: %s", len(parts), type(error).__name__)
        for part in parts:
            _answer_alike([part])
        return
    for part, answer in zip(parts, answers, strict=True):
        part.answer = answer
