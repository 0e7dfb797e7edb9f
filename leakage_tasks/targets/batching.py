"""Requests that wait for forward passes, served whole or in parts so that passes are full."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any, NamedTuple, Protocol

Later = Callable[[], Sequence[Any]]
"""A function that waits until the answers are computed and returns them."""
Many = Callable[[Sequence[Any]], Sequence[Any] | Later]
"""A function that answers several requests of one kind, in order, or lets a device compute the answers."""
ROUNDING = 1e-6
"""Tolerance of sums of passes."""
ENDING = 2.0
"""Number of waiting passes below which attacks are served evenly."""
FULL = 0.98
"""Share of their passes that requests must fill if others of their kind wait, for requests that cannot be split."""
STATELESS = 4
"""Number of passes of whole texts that count as one pass: attacks that score whole texts keep no KV cache between
passes, so more of them can run."""


class Splits(Protocol):
    """A request whose rows can be answered some at a time."""

    def part(self, rows: slice) -> Any:
        """Return the request for some of its rows."""

    def join(self, answers: Sequence[Any]) -> Any:
        """Return the answer to all rows, from the answers to successive parts."""


@dataclass(frozen=True)
class Capacity:
    """The number of ``rows`` like those of a request that fit in a pass, and the memory for the answers.

    ``row_bytes`` is the memory that the answer for a row takes, such as its KV cache; ``memory`` is that of the answers
    of all running attacks.
    """

    rows: int
    row_bytes: int = 0
    memory: int = 1

    @classmethod
    def of_whole_texts(cls, at_once: int) -> Capacity:
        """Return the capacity for whole texts, of which a pass reads ``at_once``; no KV cache is kept of them."""
        return cls(STATELESS * at_once)


class Part(NamedTuple):
    """The ``rows`` of a request that one pass reads, from row ``first`` on, and the ``request`` for them."""

    question: PendingRequest
    first: int
    rows: int
    request: Any


class Outcome(NamedTuple):
    """The answer to a request or to a part of it, or the error that it ended with."""

    answer: Any
    error: Exception | None = None


@dataclass
class PendingRequest:
    """A request for ``all_rows`` rows, and the answers to its parts so far.

    ``many`` answers requests of one ``kind``. A request that ``splits`` implements :class:`Splits`.
    """

    kind: Hashable
    many: Many
    request: Any
    all_rows: int
    capacity: Capacity
    splits: bool = False
    before: int = 0
    """Rows read for this attack before the request."""
    joint: bool = False
    """True for a request that is answered jointly with others, by further requests to the model."""
    rows_served: int = 0
    """The number of rows that were read, or that a device is reading."""
    answered: bool = False
    _under_way: int = 0
    """The number of parts that a device is reading."""
    _outcomes: list[Outcome] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows that are not served yet."""
        return self.all_rows - self.rows_served

    @property
    def waits(self) -> bool:
        """True if some of the request is not served yet; a request can have no rows."""
        return bool(self.rows) or not self._under_way

    @property
    def passes(self) -> float:
        """The number of passes that these rows fill."""
        return self.rows / self.capacity.rows

    @property
    def answer_memory(self) -> float:
        """The share of the memory that the answer to the whole request takes."""
        return 0.0 if self.joint else self.all_rows * self.capacity.row_bytes / self.capacity.memory

    @property
    def held_memory(self) -> float:
        """The share of the memory that the attack holds as long as it runs.

        If requests cannot be split, their texts share a pass only at equal lengths, so all running attacks advance
        together and hold at least one row each. A joint request holds all of its rows.
        """
        if self.joint:
            return self.all_rows * self.capacity.row_bytes / self.capacity.memory
        return 0.0 if self.splits else self.capacity.row_bytes / self.capacity.memory

    def serve(self, rows: int) -> Part:
        """Return the next ``rows`` rows, which are served from now on."""
        first, whole = self.rows_served, not self.splits or rows == self.all_rows
        self.rows_served += rows
        self._under_way += 1
        return Part(self, first, rows, self.request if whole else self.request.part(slice(first, first + rows)))

    def note(self, outcome: Outcome) -> None:
        """Record the outcome of the first part that is under way."""
        self._outcomes.append(outcome)
        self._under_way -= 1
        self.answered |= outcome.error is not None or not (self.rows or self._under_way)

    def settle(self, answer: Any) -> None:
        """Record the answer to a joint request."""
        self._outcomes, self.answered = [Outcome(answer)], True

    def answer(self) -> Any:
        """Return the answer to the whole request, or raise its error."""
        for outcome in self._outcomes:
            if outcome.error is not None:
                raise outcome.error
        answers = [outcome.answer for outcome in self._outcomes]
        return answers[0] if len(answers) == 1 else self.request.join(answers)


def answers_of(many: Many, requests: Sequence[Any]) -> Sequence[Any]:
    """Return the answers of ``many`` to requests, once they are computed."""
    answers = many(requests)
    return answers() if callable(answers) else answers


def rows_to_serve(requests: Sequence[PendingRequest]) -> list[int]:
    """Return the number of rows of each request of one kind to serve in this scheduling step.

    All rows are served if there is only one request, or if the rows do not fill a pass. Otherwise the served rows fill
    one pass. Attacks that started first are served first, so that findings are complete at a steady rate. If less than
    :data:`ENDING` passes wait, the attacks with the fewest rows read are served first, because attacks that end at the
    same time fill the last passes. A partly served request comes before all others, because its partial answers take
    memory that is not counted. Requests that cannot be split are served whole, the first ones that fill their passes,
    or all if they hold KV caches.

    Args:
        requests: Requests of one kind, in the order in which their attacks started.

    Returns:
        Rows per request.
    """
    passes = [request.passes for request in requests]
    total = sum(passes)
    if len(requests) == 1 or total < 1:
        return [request.rows for request in requests]
    if not all(request.splits for request in requests):
        if any(request.held_memory for request in requests):
            return [request.rows for request in requests]
        served = _fewest_that_fill(passes)
        return [request.rows if index < served else 0 for index, request in enumerate(requests)]
    now, room = [0] * len(requests), 1 + ROUNDING
    for index in _order(requests, ending=total < ENDING):
        now[index] = min(requests[index].rows, math.floor(room * requests[index].capacity.rows))
        room -= passes[index]
        if room <= 0:
            break
    return now


def fill_a_pass(requests: Sequence[PendingRequest]) -> bool:
    """Return True if requests fill a pass and need not wait for other attacks, as requests that cannot be split do."""
    return all(request.splits for request in requests) and sum(request.passes for request in requests) >= 1


def _order(requests: Sequence[PendingRequest], ending: bool) -> Iterable[int]:
    """Return the indices of requests in the order in which their rows are served."""
    if ending:
        return sorted(range(len(requests)), key=lambda index: (not requests[index].rows_served, requests[index].before))
    partly = [index for index, request in enumerate(requests) if request.rows_served]
    return chain(partly, (index for index, request in enumerate(requests) if not request.rows_served))


def _fewest_that_fill(passes: Sequence[float]) -> int:
    """Return how many of the first requests fill :data:`ENDING` or more passes to :data:`FULL`: the fewest, or all."""
    for number, total in enumerate(accumulate(passes), 1):
        if total + ROUNDING >= ENDING and total >= FULL * math.ceil(total - ROUNDING):
            return number
    return len(passes)
