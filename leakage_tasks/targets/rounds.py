"""Attacks on many canaries that advance together, so that a model reads in one pass what all of them ask.

Each attack runs in a thread of its own, as plain sequential code, and only one of them at a time. Where it asks the
model something, it waits. Once all wait, their questions are answered together, in the order of the attacks; then each
goes on. Some wait for longer where the passes without them are fuller. What is answered together therefore depends on
the attacks alone, never on timing.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from leakage_tasks.core.log import log
from leakage_tasks.targets.full_passes import answered_now

Asked = TypeVar("Asked")
Answered = TypeVar("Answered")
Result = TypeVar("Result")
Many = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers several questions of one kind, in their order."""
Take = Callable[[int], int | None]
"""The number of the attack that is begun next, or None for none now or none any more.

It is asked in every round, and told how many are under way: :data:`MOST_AT_ONCE` where what they ask fills passes.
"""

Read = Callable[[int, int], None]
"""Hears that so many rows were read for the attack of that number."""

MOST_AT_ONCE = 1024
"""Attacks that are under way at once; each is a thread."""
FILLED = 2.0
"""Passes' worth of questions that are to be waiting before more attacks are begun."""
STATELESS = 4
"""So many passes of whole texts count as one: attacks that ask for these hold no state while they wait."""

_here = threading.local()


@dataclass
class _Question:
    kind: Hashable
    many: Many
    asked: Any
    size: float
    """Share of a pass that it fills."""
    rows: int
    waits: bool = False
    """Whether it may wait for a later round."""
    answer: Any = None
    error: BaseException | None = None
    answered: bool = False


def ask(
    kind: Hashable,
    many: Callable[[Sequence[Asked]], Sequence[Answered]],
    asked: Asked,
    size: float,
    rows: int = 1,
    waits: bool = False,
) -> Answered:
    """The answer of ``many`` to one question, together with those of the same ``kind`` that other attacks ask.

    ``size`` is the share of a pass that it fills, for the time that it takes and for when further attacks are begun,
    ``rows`` how many texts are read for it. With ``waits`` it may be left for the next round where passes are fuller
    without it; attacks then fall out of step. Outside of :func:`together` it is answered at once, alone.
    """
    attack: _Attack[Any] | None = getattr(_here, "attack", None)
    if attack is None:
        return many([asked])[0]
    answer: Answered = attack.ask(_Question(kind, many, asked, size, rows, waits))
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
        self.question: _Question | None = None
        self.result: Result | None = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self.held = 0
        """Rounds in which it went on waiting."""
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

    def ask(self, question: _Question) -> Any:
        """Give up the turn until the question is answered."""
        self.question = question
        self._back.release()
        self._wait()
        if question.error is not None:
            raise question.error
        return question.answer

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


def in_order(numbers: Iterable[int]) -> Take:
    """Takes attacks one after the other, however many are under way."""
    left = iter(numbers)
    return lambda under_way: next(left, None) if under_way < MOST_AT_ONCE else None


def together(
    attacks: Sequence[Callable[[], Result]], take: Take | None = None, read: Read | None = None
) -> Generator[Done[Result], None, None]:
    """Run attacks so that they advance together; yields what each came to as soon as it is done.

    Attacks are begun in their order, or as ``take`` says, as many as it takes to fill passes. An error of one ends all
    of them; if several fail at the same time, it is that of the first. ``read`` is told, as it comes, for which attack
    how many rows were read.
    """
    take = take or in_order(range(len(attacks)))
    begun: list[_Attack[Result]] = []
    waiting: list[_Attack[Result]] = []
    back = threading.Semaphore(0)
    try:
        while True:
            while (number := take(len(waiting) if _size(waiting) < FILLED else MOST_AT_ONCE)) is not None:
                attack = _Attack(number, attacks[number], back)
                begun.append(attack)
                attack.start()
                if attack.go_on():
                    waiting.append(attack)
                else:
                    yield _done(attack)
            if not waiting:
                return
            _answer(waiting)
            if read is not None:
                for attack in waiting:
                    if (question := attack.question) is not None and question.answered:
                        read(attack.number, question.rows)
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


def _size(attacks: Sequence[_Attack[Any]]) -> float:
    return sum(attack.question.size for attack in attacks if attack.question is not None)


def _answer(waiting: Sequence[_Attack[Any]]) -> None:
    """Answer what all ask, questions of one kind together; those that had better wait for the next round are left."""
    kinds: dict[Hashable, list[_Attack[Any]]] = {}
    for attack in waiting:
        assert attack.question is not None
        kinds.setdefault(attack.question.kind, []).append(attack)
    for asking in kinds.values():
        started, group = time.perf_counter(), _in_full_passes(asking)
        questions = [attack.question for attack in group if attack.question is not None]
        _answer_alike(questions)
        seconds, size = time.perf_counter() - started, _size(group)
        for attack, question in zip(group, questions, strict=True):
            attack.seconds += seconds * (question.size / size if size else 1 / len(group))
            question.answered = True


def _in_full_passes(group: list[_Attack[Any]]) -> list[_Attack[Any]]:
    """Those of a ``group`` to be answered now; the others go on waiting."""
    if not all(attack.question is not None and attack.question.waits for attack in group):
        return group
    now = answered_now([_size([attack]) for attack in group], [attack.held for attack in group])
    for place, attack in enumerate(group):
        attack.held += place not in now
    return [attack for place, attack in enumerate(group) if place in now]


def _answer_alike(questions: Sequence[_Question]) -> None:
    """Answer questions of one kind; where that fails, one by one, so that an error is that of whose question it is."""
    many = questions[0].many
    try:
        answers = many([question.asked for question in questions])
    except Exception as error:
        if len(questions) == 1:
            questions[0].error = error
            return
        log.debug("%d questions are answered one by one: %s", len(questions), type(error).__name__)
        for question in questions:
            _answer_alike([question])
        return
    for question, answer in zip(questions, answers, strict=True):
        question.answer = answer
