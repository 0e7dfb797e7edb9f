"""Batches of requests of many attacks: chosen, launched, and noted once a device has computed the answers."""

from __future__ import annotations

import time
from collections.abc import Container, Hashable, Iterator, Sequence
from typing import Any

from leakage_tasks.core.log import log
from leakage_tasks.targets.attack_coroutine import AttackCoroutine
from leakage_tasks.targets.batching import Later, Many, Outcome, fill_a_pass, rows_to_serve


class ServedBatch:
    """Rows of requests of one kind that share a batch: launched when it is made, and noted by :meth:`read`."""

    def __init__(self, attacks: Sequence[AttackCoroutine[Any]], rows: Sequence[int]) -> None:
        started, first = time.perf_counter(), attacks[0].pending
        self.kind = first.kind
        self._attacks = attacks
        self._parts = [attack.pending.serve(some) for attack, some in zip(attacks, rows, strict=True)]
        self._answers = _launched(first.many, [part.request for part in self._parts])
        self._seconds = time.perf_counter() - started

    @property
    def is_computing(self) -> bool:
        """True if a device may still compute the answers."""
        return callable(self._answers)

    def read(self) -> Iterator[tuple[int, int]]:
        """Wait for the answers and note them; yield the numbers of attacks and of their rows."""
        started = time.perf_counter()
        outcomes = _computed(self._answers, len(self._parts)) if callable(self._answers) else self._answers
        # A request's share of the passes is its share of the time.
        shares = [part.rows / part.question.capacity.rows for part in self._parts]
        seconds, whole = self._seconds + time.perf_counter() - started, sum(shares)
        for attack, part, outcome, share in zip(self._attacks, self._parts, outcomes, shares, strict=True):
            yield from attack.note(part, outcome, seconds * (share / whole if whole else 1 / len(shares)))


def serve(waiting: Sequence[AttackCoroutine[Any]], launched: Container[Hashable]) -> Iterator[ServedBatch]:
    """Launch a batch of each kind of pending request, if it is full or no other of its kind is ``launched``.

    The other rows of requests that can be split wait for the next scheduling step.
    """
    kinds: dict[Hashable, list[AttackCoroutine[Any]]] = {}
    for attack in waiting:
        if attack.pending.waits:
            kinds.setdefault(attack.pending.kind, []).append(attack)
    for kind, alike in kinds.items():
        requests = [attack.pending for attack in alike]
        if kind in launched and not fill_a_pass(requests):
            continue
        rows = rows_to_serve(requests)
        served = [(attack, some) for attack, some in zip(alike, rows, strict=True) if some or not attack.pending.rows]
        yield ServedBatch([attack for attack, _ in served], [some for _, some in served])


def _launched(many: Many, requests: Sequence[Any]) -> list[Outcome] | Later:
    """Answer requests of one kind together, or launch them; if that fails, answer them one by one, so that each error
    reaches its own attack."""
    try:
        answers = many(requests)
        return answers if callable(answers) else _outcomes(answers, len(requests))
    except Exception as error:
        if len(requests) == 1:
            return [Outcome(None, error)]
        log.debug("%d requests are answered one by one: %s", len(requests), type(error).__name__)
    alone = [_launched(many, [request]) for request in requests]
    return [outcome for one in alone for outcome in (_computed(one, 1) if callable(one) else one)]


def _computed(answers: Later, number: int) -> list[Outcome]:
    """Return the outcomes of launched requests. After an error of a device nothing else can be computed on it."""
    try:
        return _outcomes(answers(), number)
    except Exception as error:
        return [Outcome(None, error)] * number


def _outcomes(answers: Sequence[Any], number: int) -> list[Outcome]:
    return [Outcome(answer) for _, answer in zip(range(number), answers, strict=True)]
