"""Questions that wait for passes, answered whole or in parts, so that none is part-filled while others wait."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

Many = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers several questions of one kind, in their order."""
ROUNDING = 1e-6
"""Passes that sums of shares may be off by."""


@dataclass(frozen=True)
class Splitter:
    """How some rows of a question are asked for alone, and how the answers to its parts become that to the whole."""

    cut: Callable[[Any, slice], Any]
    join: Callable[[Any, Sequence[Any]], Any]


@dataclass
class QuestionPart:
    """Some rows of a question, or all; ``size`` is the share of a pass that they fill."""

    many: Many
    asked: Any
    size: float
    rows: int
    answer: Any = None
    error: BaseException | None = None


@dataclass
class PendingRequest:
    """What is asked, and what has come of it so far."""

    kind: Hashable
    whole: QuestionPart
    in_parts: Splitter | None = None
    before: int = 0
    """Rows that were read for who asks, before this question."""
    held: float = 0.0
    """The share of the memory for states that who asks keeps as long as it runs."""
    answer_share: float = 0.0
    """The share of it that the answer to the whole takes."""
    rows_read: int = 0
    error: BaseException | None = None
    answered: bool = False
    _answers: list[Any] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows that wait."""
        return self.whole.rows - self.rows_read

    @property
    def size(self) -> float:
        """The share of a pass that they fill."""
        return self.whole.size * self.rows / self.whole.rows if self.rows_read else self.whole.size

    @property
    def answer_now(self) -> float:
        """The share of the memory for states that the answer to the rows that wait takes."""
        return self.answer_share * self.rows / max(self.whole.rows, 1)

    def part(self, rows: int) -> QuestionPart:
        """The next ``rows`` of it."""
        if self.in_parts is None or rows == self.whole.rows:
            return self.whole
        asked = self.in_parts.cut(self.whole.asked, slice(self.rows_read, self.rows_read + rows))
        return QuestionPart(self.whole.many, asked, self.size * rows / self.rows, rows)

    def note(self, part: QuestionPart) -> None:
        """Take the answer to the next part, which may be an error."""
        self._answers.append(part.answer)
        self.rows_read += part.rows
        self.error = part.error
        self.answered = part.error is not None or not self.rows

    def answer(self) -> Any:
        """The answer to the whole. Raises the error that stands for it."""
        if self.error is not None:
            raise self.error
        if self.in_parts is None or len(self._answers) == 1:
            return self._answers[0]
        return self.in_parts.join(self.whole.asked, self._answers)


def rows_to_serve(questions: Sequence[PendingRequest]) -> list[int]:
    """How many rows of each question of one kind are answered in this round.

    All, unless the questions are several, can all be answered in parts and fill a pass: then as many as fill whole
    passes. One that was answered in part comes first, since its answers are held and counted by nobody; then those for
    whom fewest rows were read, so that none is left with its last questions alone. Where memory does not hold the
    answers of all, as many passes are made as it holds, one at the least, first for those for whom most rows were read:
    they are done soonest.
    """
    total, memory = sum(question.size for question in questions), sum(question.answer_now for question in questions)
    if len(questions) == 1 or total < 1 or not all(question.in_parts for question in questions):
        return [question.rows for question in questions]
    passes, now = math.floor(max(1.0, total / max(memory, 1.0)) + ROUNDING), [0] * len(questions)
    sign, room = -1 if memory > 1 else 1, passes + ROUNDING
    order = sorted(range(len(questions)), key=lambda n: (not questions[n].rows_read, sign * questions[n].before))
    for place in order:
        each = questions[place]
        now[place] = each.rows if each.size <= room else math.floor(room * each.rows / each.size)
        room = max(0.0, room - each.size)
    return now
