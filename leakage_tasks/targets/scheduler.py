"""Attacks on many canaries that advance together, so that a model reads in one pass what all of them ask.

Each attack runs in a thread of its own, as plain sequential code, and only one of them at a time. Where it asks the
model something, it waits. Once all wait, their questions are answered together, in the order of the attacks; then each
goes on. Of questions that can be answered in parts, as much is answered as fills whole passes; the rest waits for the
next round. What is answered together therefore depends on the attacks alone, never on timing.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from leakage_tasks.core.log import log
from leakage_tasks.targets.batching import PendingRequest, QuestionPart, Splitter, rows_to_serve

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
Result = TypeVar("Result")
NextAttack = Callable[[int], int | None]
"""The number of the attack that is begun next, or None for none now or none any more.

It is asked in every round, and told how many are under way: :data:`MOST_AT_ONCE` where what they ask fills passes.
"""

OnRows = Callable[[int, int], None]
"""Hears that so many rows were read for the attack of that number."""

MOST_AT_ONCE = 1024
"""Attacks that are under way at once; each is a thread."""
FILLED = 2.0
"""Passes' worth of questions that are to be waiting before more attacks are begun."""
STATELESS = 4
"""So many passes of whole texts count as one: attacks that ask for these hold no state while they wait."""

_here = threading.local()


def submit(
    kind: Hashable,
    many: Callable[[Sequence[Asked]], Sequence[Answered]],
    asked: Asked,
    size: float,
    rows: int = 1,
    in_parts: Splitter | None = None,
    held: float = 0.0,
    answer_share: float = 0.0,
) -> Answered:
    """The answer of ``many`` to one question, together with those of the same ``kind`` that other attacks ask.

    ``size`` is the share of a pass that it fills, for the time that it takes and for when further attacks are begun,
    ``rows`` how many texts are read for it. One that can be answered ``in_parts`` may have some of its rows read in one
    round and the others in the next, so that passes are full; attacks then fall out of step. ``held`` is the share of
    the memory for states that who asks keeps as long as it runs: once all of it is held, no more attacks are begun.
    ``answer_share`` is the share that the answer takes: where memory does not hold those to all questions that can be
    answered in parts, the rest waits for the next round. Outside of :func:`run_concurrently` it is answered at once,
    alone.
    """
    attack: _Attack[Any] | None = getattr(_here, "attack", None)
    if attack is None:
        return many([asked])[0]
    answer: Answered = attack.submit(
        PendingRequest(
            kind,
            QuestionPart(many, asked, size, rows),
            in_parts,
            attack.rows_read,
            held=held,
            answer_share=answer_share,
        )
    )
    return answer


def share_of_whole_texts(rows: int, at_once: int) -> float:
    """The ``size`` of a question of so many rows that are read from their beginning, ``at_once`` a pass."""
    return rows / (STATELESS * at_once)


@dataclass(frozen=True)
class Done(Generic[Result]):
    """One attack's result, the number of the attack, and the seconds that were spent on it, its share of passes."""

    number: int
    result: Result = field(repr=False)
    seconds: float


class _Abandoned(BaseException):
    """Ends an attack whose run is over."""


class _Attack(threading.Thread, Generic[Result]):
    """One attack: runs while it has its turn, which ends where it asks something, and when it is done."""

    def __init__(self, number: int, attack: Callable[[], Result], back: threading.Semaphore) -> None:
        super().__init__(name=f"attack {number}", daemon=True)
        self.number, self._attack, self._back = number, attack, back
        self._turn = threading.Semaphore(0)
        self._context = contextvars.copy_context()
        self.question: PendingRequest | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.rows_read = 0
        self.abandoned = False

    def run(self) -> None:
        """The attack, from its first turn on."""
        _here.attack = self
        try:
            self._wait()
            self.result = self._context.run(self._attack)
        except BaseException as error:  # handed to whoever waits for the attack
            self.error = error
        finally:
            self.question = None
            self._back.release()

    def _wait(self) -> None:
        self._turn.acquire()
        if self.abandoned:
            raise _Abandoned

    def submit(self, question: PendingRequest) -> Any:
        """Give up the turn until the question is answered."""
        self.question = question
        self._back.release()
        self._wait()
        return question.answer()

    def go_on(self) -> bool:
        """Let the attack run until it asks something or is done; whether it waits for an answer."""
        started = time.perf_counter()
        self.question = None
        self._turn.release()
        self._back.acquire()
        self.seconds += time.perf_counter() - started
        return self.question is not None

    def abandon(self) -> None:
        """End the attack, which waits or is about to."""
        self.abandoned = True
        self._turn.release()


def in_order(numbers: Iterable[int]) -> NextAttack:
    """Takes attacks one after the other, however many are under way."""
    left = iter(numbers)
    return lambda under_way: next(left, None) if under_way < MOST_AT_ONCE else None


def run_concurrently(
    attacks: Sequence[Callable[[], Result]], next_attack: NextAttack | None = None, on_rows: OnRows | None = None
) -> Generator[Done[Result], None, None]:
    """Run attacks so that they advance together; yields what each came to as soon as it is done.

    Attacks are begun in their order, or as ``next_attack`` says, as many as it takes to fill passes. An error of one
    ends all of them; if several fail at the same time, it is that of the first. ``on_rows`` is called with the number
    of an attack and the rows that were read for it.
    """
    next_attack = next_attack or in_order(range(len(attacks)))
    begun: list[_Attack[Result]] = []
    waiting: list[_Attack[Result]] = []
    back = threading.Semaphore(0)
    try:
        while True:
            while (number := next_attack(MOST_AT_ONCE if _enough(waiting) else len(waiting))) is not None:
                attack = _Attack(number, attacks[number], back)
                begun.append(attack)
                attack.start()
                if attack.go_on():
                    waiting.append(attack)
                else:
                    yield _done(attack)
            if not waiting:
                return
            for number, rows in _answer(waiting):
                if on_rows is not None:
                    on_rows(number, rows)
            still = []
            for attack in waiting:
                if (attack.question is not None and not attack.question.answered) or attack.go_on():
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


def _enough(attacks: Sequence[_Attack[Any]]) -> bool:
    """Whether what attacks ask fills passes, or they keep all the memory that there is for states."""
    questions = [attack.question for attack in attacks if attack.question is not None]
    return sum(question.size for question in questions) >= FILLED or sum(question.held for question in questions) >= 1


def _answer(waiting: Sequence[_Attack[Any]]) -> Iterator[tuple[int, int]]:
    """Answer what all ask, questions of one kind together; gives who had how many rows read.

    The rest of those that can be answered in parts is left for the next round.
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
        seconds, size = time.perf_counter() - started, sum(part.size for _, _, part in chosen)
        for attack, question, part in chosen:
            attack.seconds += seconds * (part.size / size if size else 1 / len(chosen))
            attack.rows_read += part.rows
            question.note(part)
            yield attack.number, part.rows


def _answer_alike(parts: Sequence[QuestionPart]) -> None:
    """Answer questions of one kind; where that fails, one by one, so that an error is that of whose question it is."""
    many = parts[0].many
    try:
        answers = many([part.asked for part in parts])
    except Exception as error:
        if len(parts) == 1:
            parts[0].error = error
            return
        log.debug("%d questions are answered one by one: %s", len(parts), type(error).__name__)
        for part in parts:
            _answer_alike([part])
        return
    for part, answer in zip(parts, answers, strict=True):
        part.answer = answer
