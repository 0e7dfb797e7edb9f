"""Requests that wait for forward passes, served whole or in parts so that passes are full."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

Many = Callable[[Sequence[Any]], Sequence[Any]]
"""A function that answers several requests of one kind, in order."""
ROUNDING = 1e-6
"""Tolerance of sums of shares of a pass."""


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

    @property
    def answer_now(self) -> float:
        """The share of the memory for KV caches taken by the answer to these rows."""
        return self.answer_share * self.rows / max(self.whole.rows, 1)

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


def rows_to_serve(questions: Sequence[PendingRequest]) -> list[int]:
    """Return the number of rows of each request of one kind to serve in this scheduling step.

    All rows are served if there is only one request, if a request cannot be split, or if the rows do not fill a pass.
    Otherwise the served rows fill whole passes. Partly served requests come first, because their partial answers take
    memory that is not counted. Then come the attacks with the fewest rows read, so that all attacks end at about the
    same time. If memory cannot hold all answers, fewer passes are made (at least one), and the attacks with the most
    rows read come first, because they end soonest.
    """
    total, memory = sum(question.size for question in questions), sum(question.answer_now for question in questions)
    if len(questions) == 1 or total < 1 or not all(question.in_parts for question in questions):
        return [question.rows for question in questions]
    passes, now = math.floor(max(1.0, total / max(memory, 1.0)) + ROUNDING), [0] * len(questions)
    sign, room = -1 if memory > 1 else 1, passes + ROUNDING
    order = sorted(range(len(questions)), key=lambda n: (not questions[n].rows_read, sign * questions[n].before))
    for index in order:
        question = questions[index]
        now[index] = question.rows if question.size <= room else math.floor(room * question.rows / question.size)
        room = max(0.0, room - question.size)
    return now
