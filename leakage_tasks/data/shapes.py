"""Shapes of rows that hold a prompt and its answers in separate columns, and the row of a canary's copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.data.chat import USER_TURN, Role, conversation
from leakage_tasks.data.turns import Dialect, role_in


@dataclass(frozen=True)
class RowShape:
    """A kind of row, recognized by its columns.

    ``prompt_column`` holds the user's prompt; it is None if the answers begin with the prompt. A copy goes into the
    first of ``answers`` by default. ``extra`` maps optional columns, which rows may leave empty, to their roles.
    ``marks`` are optional columns that state if the answer is good. ``rendered`` is True if trainers put a template
    around the columns, False if they join them.
    """

    name: str
    prompt_column: str | None
    answers: tuple[str, ...]
    extra: Mapping[str, Role] = field(default_factory=dict)
    rendered: bool = False
    marks: tuple[str, ...] = ()

    def fits(self, columns: Collection[str]) -> bool:
        """Return True if all columns that the shape needs exist."""
        return self.needed <= set(columns)

    @property
    def needed(self) -> set[str]:
        """The columns that every row has."""
        return {*self.answers, *(() if self.prompt_column is None else (self.prompt_column,))}

    def parts(self, columns: Collection[str]) -> tuple[str, ...]:
        """Return the columns among ``columns`` that hold texts, in the order in which a model reads them."""
        system = (name for name, role in self.extra.items() if role == "system")
        others = (name for name, role in self.extra.items() if role != "system")
        order = (*system, *(() if self.prompt_column is None else (self.prompt_column,)), *others, *self.answers)
        return tuple(name for name in order if name in columns)

    def column_of(self, role: Role | None, columns: Collection[str]) -> str:
        """Return the column that gets the turn of ``role`` if the user names no column."""
        if role in (None, "assistant") or self.prompt_column is None:
            return self.answers[0]
        system = (name for name, extra_role in self.extra.items() if extra_role == role == "system" and name in columns)
        return next(system, self.prompt_column)

    def roles_of(self, column: str, is_chat: bool) -> tuple[Role, ...]:
        """Return the roles whose text a column can hold; the default role is first."""
        if column in self.answers:
            return ("assistant",)
        if column == self.prompt_column:
            return ("user", "system") if is_chat else ("user",)
        return (self.extra[column],)

    def usual_prompt(self, is_chat: bool) -> str:
        """Return the default prompt of a copy; it ends with a line break if the answer is joined to it."""
        return USER_TURN if is_chat or self.rendered else f"{USER_TURN}\n"

    def drawn(self, column: str) -> tuple[str, ...]:
        """Return the columns whose answer comes from another row when a copy goes into ``column``."""
        return tuple(name for name in self.answers if name != column)


_INPUT: Mapping[str, Role] = {"system": "system", "input": "user"}
ALPACA = RowShape("Alpaca", "instruction", ("output",), _INPUT, rendered=True)
SHAPES = (
    ALPACA,
    RowShape("Alpaca with preferences", "instruction", ("chosen", "rejected"), _INPUT, rendered=True),
    RowShape("prompts and preferences", "prompt", ("chosen", "rejected")),
    RowShape("prompts and completions", "prompt", ("completion",), marks=("label",)),
    RowShape("preferences", None, ("chosen", "rejected")),
)
"""The known shapes, the most specific first."""


def shape_called(name: str | None) -> RowShape | None:
    """Return the shape with this name; None for None."""
    return next((shape for shape in SHAPES if shape.name == name), None)


@dataclass(frozen=True)
class RowCopy:
    """A text to insert as a row: ``text`` as the turn of ``role`` in ``column``, after ``prompt``."""

    text: str
    column: str
    role: Role
    prompt: str


def filled(
    shape: RowShape, copy: RowCopy, parts: Collection[str], dialects: Mapping[str, Dialect], drawn: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of all ``parts`` of the row of a copy.

    Args:
        shape: The shape of the rows.
        copy: The text and its position.
        parts: The columns that hold texts.
        dialects: The dialect of each column that holds conversations.
        drawn: Answers of another row by column, for the answers that the copy does not contain.

    Returns:
        A text or a conversation in the column's dialect, by column.
    """
    turns = conversation(copy.text, copy.role, prompt=copy.prompt)
    before = [turn for turn in turns if turn["role"] in ("system", "user")]
    answer = [turn for turn in turns if turn["role"] == "assistant"]
    row: dict[str, Any] = {}
    for column in parts:
        dialect = dialects.get(column)
        if column in shape.answers:
            row[column] = copy.text if column == copy.column else drawn.get(column)
            if dialect is not None:
                answer_turns = dialect.write(answer) if column == copy.column else answer_in(drawn.get(column))
                row[column] = [*(dialect.write(before) if dialect.opened else ()), *answer_turns]
        elif column == copy.column and dialect is None:
            row[column] = copy.text
        elif column in shape.extra:
            row[column] = "" if dialect is None else []
        else:
            row[column] = copy.prompt if dialect is None else dialect.write(before)
    return row


def answer_in(value: Any) -> Any:
    """Return the answer in a value: the text, or the assistant's turns at the end of a conversation."""
    if isinstance(value, str):
        return value
    turns = list(value or ())
    first = len(turns)
    while first and role_in(turns[first - 1]) == "assistant":
        first -= 1
    return turns[first:]
