"""Attacks on many canaries that advance together, so that one forward pass serves the requests of all of them.

Each attack is a coroutine (:mod:`~leakage_tasks.targets.attack_coroutine`), and one runs at a time. Once all attacks
wait for an answer, a pass of each kind of request is answered, for the attacks that started first; then these attacks
continue. If requests can be split, only the rows that fill a pass are answered; the others wait for the next scheduling
step. So attacks end one after another at a steady rate, and the contents of a batch depend on the attacks alone, never
on timing.

A GPU computes a pass while the host does other work: if enough rows wait, the next pass is launched before the attacks
of the last one continue.

Attacks that wait for a stage of one kind form joint attacks, the oldest first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

from leakage_tasks.targets.attack_coroutine import ALONE, AttackCoroutine
from leakage_tasks.targets.served_batches import ServedBatch, serve

Result = TypeVar("Result")
NextAttack = Callable[[int], int | None]
"""A function that returns the index of the attack to start next, or None to start no attack now.

Its argument is the number of running attacks, or :data:`MOST_AT_ONCE` if their requests already fill passes. It is
called in every scheduling step.
"""

OnRows = Callable[[int, int], None]
"""A function that is called with the index of an attack and the number of rows read for it."""

MOST_AT_ONCE = 1024
"""Maximum number of running attacks."""
FILLED = 2.0
"""Passes that the pending requests must fill before no further attack starts. The first request of an attack is small,
and later ones wait their turn, so attacks start in groups that also fill passes."""
JOINT = 0.5
"""Passes that the members of a joint attack fill. With more, all attacks of a run end a stage at the same time, and
nothing fills the passes of the few that need another stage."""


@dataclass(frozen=True)
class Done(Generic[Result]):
    """A finished attack: its index, its result, and its time in seconds, including its share of the passes."""

    number: int
    result: Result = field(repr=False)
    seconds: float


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
    the index of an attack and the number of rows read for it. The generator is advanced and closed in one thread.
    """
    next_attack = next_attack or in_order(range(len(attacks)))
    run = _Run[Result]()
    try:
        while True:
            load = _Load([*run.waiting, *run.apart])
            while (number := next_attack(MOST_AT_ONCE if load.fills(FILLED) else run.under_way)) is not None:
                attack = run.begin(number, attacks[number])
                yield from run.resume(attack)
                load.add(attack)
            yield from run.join_attacks()
            if not run.waiting:
                return
            for number, rows in run.read():
                if on_rows is not None:
                    on_rows(number, rows)
            yield from run.go_on()
    finally:
        run.end()


class _Run(Generic[Result]):
    """The attacks of a run: ``waiting`` for an answer of the model, or ``apart`` until they are joined to others."""

    def __init__(self) -> None:
        self.waiting: list[AttackCoroutine[Any]] = []
        self.apart: list[AttackCoroutine[Any]] = []
        self.under_way = 0
        """Number of attacks that have begun and not ended, without joint attacks."""
        self._begun: list[AttackCoroutine[Any]] = []
        self._computing: list[ServedBatch] = []

    def begin(
        self, number: int, function: Callable[[], Any], members: Sequence[AttackCoroutine[Any]] = ()
    ) -> AttackCoroutine[Any]:
        """Add an attack, which starts when it is first resumed."""
        serial = members[0].serial if members else len(self._begun)
        attack = AttackCoroutine[Any](number, function, serial, members)
        self._begun.append(attack)
        self.under_way += not members
        return attack

    def resume(self, attack: AttackCoroutine[Any]) -> Iterator[Done[Result]]:
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

    def read(self) -> Iterator[tuple[int, int]]:
        """Read a batch of each kind of request; yield the numbers of attacks and of their rows.

        Batches that a device is still computing are read in the next scheduling step, after the next are launched.
        """
        before, self._computing = self._computing, []
        for batch in serve(self.waiting, {batch.kind for batch in before}):
            (self._computing if batch.is_computing else before).append(batch)
        for batch in before:
            yield from batch.read()

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
        load = _Load(self.waiting)
        while self.apart and load.passes < FILLED:
            before = len(self.waiting)
            yield from self.resume(self._joined(self._take_group()))
            for attack in self.waiting[before:]:
                load.add(attack)
        self.waiting.sort(key=lambda attack: attack.serial)

    def _joined(self, group: Sequence[AttackCoroutine[Any]]) -> AttackCoroutine[Any]:
        """Return the joint attack for a group, or the only attack of the group, which goes on alone."""
        if len(group) == 1:
            group[0].pending.settle(ALONE)
            return group[0]
        requests = [attack.pending.request for attack in group]
        return self.begin(group[0].number, partial(group[0].pending.many, requests), group)

    def _take_group(self) -> list[AttackCoroutine[Any]]:
        """Remove the next attacks to join: the oldest that wait for company of one kind, as many as fill passes."""
        self.apart.sort(key=lambda attack: attack.serial)
        kind, load = self.apart[0].pending.kind, _Load()
        group: list[AttackCoroutine[Any]] = []
        for attack in self.apart:
            if attack.pending.kind == kind and not load.fills(JOINT):
                group.append(attack)
                load.add(attack)
        taken = {id(attack) for attack in group}
        self.apart = [attack for attack in self.apart if id(attack) not in taken]
        return group

    def end(self) -> None:
        """End all attacks that have not ended. An error in the cleanup of one hides neither another error nor an
        attack."""
        for attack in self._begun:
            with contextlib.suppress(Exception):
                if attack:
                    attack.throw()


def _done(attack: AttackCoroutine[Result]) -> Done[Result]:
    if attack.error is not None:
        raise attack.error
    assert attack.result is not None
    return Done(attack.number, attack.result, attack.seconds)


class _Load:
    """The passes and the memory that the pending requests of attacks fill."""

    def __init__(self, attacks: Iterable[AttackCoroutine[Any]] = ()) -> None:
        self.passes = self._held = self._answers = 0.0
        for attack in attacks:
            self.add(attack)

    def add(self, attack: AttackCoroutine[Any]) -> None:
        """Add the pending request of an attack."""
        if (question := attack.question) is not None:
            self.passes += question.passes
            self._held += question.held_memory
            self._answers += question.answer_memory

    def fills(self, passes: float) -> bool:
        """Return True if the requests fill this number of passes, or if the attacks take all the memory for answers."""
        memory = self._held + self._answers if self.passes >= 1 else self._held
        return self.passes >= passes or memory >= 1
