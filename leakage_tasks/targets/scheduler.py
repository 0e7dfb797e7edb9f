"""Attacks on many canaries that advance together, so that one forward pass serves the requests of all of them.

Each attack runs in its own thread as plain sequential code, and only one thread runs at a time. An attack that submits
a request to the model waits. Once all attacks wait, a pass of each kind of request is answered, for the attacks that
started first; then these attacks continue. If requests can be split, only the rows that fill a pass are answered; the
others wait for the next scheduling step. So attacks end one after another at a steady rate, and the contents of a batch
depend on the attacks alone, never on timing.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

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


@dataclass(frozen=True)
class Done(Generic[Result]):
    """A finished attack: its index, its result, and its time in seconds, including its share of the passes."""

    number: int
    result: Result = field(repr=False)
    seconds: float


class _Abandoned(BaseException):
    """Signal that ends an attack whose run is over."""


class _Attack(threading.Thread, Generic[Result]):
    """The thread of one attack, which runs until it submits a request or ends."""

    def __init__(self, number: int, attack: Callable[[], Result], back: SimpleQueue[None]) -> None:
        super().__init__(name=f"attack {number}", daemon=True)
        self.number, self._attack, self._back = number, attack, back
        # In CPython a queue passes the turn on faster than a semaphore does.
        self._turn: SimpleQueue[None] = SimpleQueue()
        self._context = contextvars.copy_context()
        self.question: PendingRequest | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.rows_read = 0
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
            self._back.put(None)

    def _wait(self) -> None:
        self._turn.get()
        if self.abandoned:
            raise _Abandoned

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
        self.seconds += time.perf_counter() - started
        return self.question is not None

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
    begun: list[_Attack[Result]] = []
    waiting: list[_Attack[Result]] = []
    back: SimpleQueue[None] = SimpleQueue()
    try:
        while True:
            load = _Load(waiting)
            while (number := next_attack(MOST_AT_ONCE if load.is_full else len(waiting))) is not None:
                attack = _Attack(number, attacks[number], back)
                begun.append(attack)
                attack.start()
                if attack.resume():
                    waiting.append(attack)
                    load.add(attack)
                else:
                    yield _done(attack)
            if not waiting:
                return
            for number, rows in _answer(waiting):
                if on_rows is not None:
                    on_rows(number, rows)
            still = []
            for attack in waiting:
                if (attack.question is not None and not attack.question.answered) or attack.resume():
                    still.append(attack)
                else:
                    yield _done(attack)
            waiting = still
    finally:
        left = [attack for attack in begun if attack.is_alive()]
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

    def __init__(self, attacks: Iterable[_Attack[Any]]) -> None:
        self._passes = self._held = self._answers = 0.0
        for attack in attacks:
            self.add(attack)

    def add(self, attack: _Attack[Any]) -> None:
        """Add the pending request of an attack."""
        if (question := attack.question) is not None:
            self._passes += question.passes
            self._held += question.held_memory
            self._answers += question.answer_memory

    @property
    def is_full(self) -> bool:
        """True if the requests fill :data:`FILLED` passes, or if the attacks take all the memory for answers."""
        memory = self._held + self._answers if self._passes >= 1 else self._held
        return self._passes >= FILLED or memory >= 1


def _answer(waiting: Sequence[_Attack[Any]]) -> Iterator[tuple[int, int]]:
    """Answer the pending requests, batched by kind; yield each attack's index and number of rows read.

    The other rows of requests that can be split wait for the next scheduling step.
    """
    kinds: dict[Hashable, list[tuple[_Attack[Any], PendingRequest]]] = {}
    for attack in waiting:
        assert attack.question is not None
        kinds.setdefault(attack.question.kind, []).append((attack, attack.question))
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
        for (attack, question, part), share in zip(chosen, shares, strict=True):
            attack.seconds += seconds * (share / whole if whole else 1 / len(chosen))
            attack.rows_read += part.rows
            question.note(part)
            yield attack.number, part.rows


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
