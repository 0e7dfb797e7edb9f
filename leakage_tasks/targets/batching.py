"""Requests that wait for forward passes, served whole or in parts so that passes are full."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

Many = Callable[[Sequence[Any]], Sequence[Any]]
"""A function that answers several requests of one kind, in order."""
ROUNDING = 1e-6
"""Tolerance of sums of shares of a pass."""
ENDING = 2.0
"""Number of waiting passes below which attacks are served evenly."""
FULL = 0.98
"""Share of their passes that requests must fill if others of their kind wait, for requests that cannot be split."""


@dataclass(frozen=True)
class Splitter:
    """Functions that cut some rows out of a request, and join the answers to its parts."""

    cut: Callable[[Any, slice], Any]
    join: Callable[[Any, Sequence[Any]], Any]


@dataclass
class RequestPart:
    """Some or all rows of a request; ``size`` is the share of a pass that they fill."""

    many: Many
    request: Any
    size: float
    rows: int
    answer: Any = None
    error: BaseException | None = None


@dataclass
class PendingRequest:
    """A request and the answers to its parts so far."""

    kind: Hashable
    whole: RequestPart
    in_parts: Splitter | None = None
    before: int = 0
    """Rows read for this attack before the request."""
    held: float = 0.0
    """Share of the memory for KV caches that the attack holds as long as it runs."""
    answer_share: float = 0.0
    """Share of that memory taken by the answer to the whole request."""
    rows_read: int = 0
    error: BaseException | None = None
    answered: bool = False
    _answers: list[Any] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """The number of rows that are not served yet."""
        return self.whole.rows - self.rows_read

    @property
    def size(self) -> float:
        """The share of a pass that these rows fill."""
        return self.whole.size * self.rows / self.whole.rows if self.rows_read else self.whole.size

    def part(self, rows: int) -> RequestPart:
        """Return the next ``rows`` rows as a part."""
        if self.in_parts is None or rows == self.whole.rows:
            return self.whole
        request = self.in_parts.cut(self.whole.request, slice(self.rows_read, self.rows_read + rows))
        return RequestPart(self.whole.many, request, self.size * rows / self.rows, rows)

    def note(self, part: RequestPart) -> None:
        """Record the answer to the next part, which may be an error."""
        self._answers.append(part.answer)
        self.rows_read += part.rows
        self.error = part.error
        self.answered = part.error is not None or not self.rows

    def answer(self) -> Any:
        """Return the answer to the whole request, or raise its error."""
        if self.error is not None:
            raise self.error
        if self.in_parts is None or len(self._answers) == 1:
            return self._answers[0]
        return self.in_parts.join(self.whole.request, self._answers)


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
    sizes = [request.size for request in requests]
    total = sum(sizes)
    if len(requests) == 1 or total < 1:
        return [request.rows for request in requests]
    if not all(request.in_parts for request in requests):
        if any(request.held for request in requests):
            # These texts share a pass only at equal lengths, so their attacks advance together.
            return [request.rows for request in requests]
        served = _fewest_that_fill(sizes)
        return [request.rows if index < served else 0 for index, request in enumerate(requests)]
    now, room = [0] * len(requests), 1 + ROUNDING
    for index in _order(requests, ending=total < ENDING):
        rows, size = requests[index].rows, sizes[index]
        now[index] = rows if size <= room else math.floor(room * rows / size)
        room -= size
        if room <= 0:
            break
    return now


def _order(requests: Sequence[PendingRequest], ending: bool) -> Iterable[int]:
    """Return the indices of requests in the order in which their rows are served."""
    if ending:
        return sorted(range(len(requests)), key=lambda index: (not requests[index].rows_read, requests[index].before))
    partly = [index for index, request in enumerate(requests) if request.rows_read]
    return chain(partly, (index for index, request in enumerate(requests) if not request.rows_read))


def _fewest_that_fill(sizes: Sequence[float]) -> int:
    """Return how many of the first requests fill :data:`ENDING` or more passes to :data:`FULL`: the fewest, or all."""
    for number, total in enumerate(accumulate(sizes), 1):
        if total + ROUNDING >= ENDING and total >= FULL * math.ceil(total - ROUNDING):
            return number
    return len(sizes)
