"""Rows that hold conversations, as a chat template renders them for training."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.chat import Render
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.data import Columns, Format, Layout
from leakage_tasks.data.conversations import ARGUMENTS, ChatRow, chat_rows, holds_conversations

Span = tuple[int, int]


@dataclass(frozen=True)
class Rendering:
    """The chat template with which a run renders rows.

    ``key`` identifies the template, its arguments and ``system``, the message for conversations without a turn of the
    system. Two renderings are equal if their keys are.
    """

    render: Render = field(compare=False, repr=False)
    key: str
    system: str | None = field(default=None, compare=False)

    def text(self, row: ChatRow) -> str:
        """Return the text of a row; empty without turns. Raises OptionError, which names the row, for turns that the
        template refuses."""
        turns = row.turns
        if not turns:
            return ""
        added = self.system is not None and turns[0]["role"] != "system"
        if added:
            turns = [{"role": "system", "content": self.system}, *turns]
        tools = {"tools": row.tools} if row.tools else {}
        try:
            return self.render(turns, **(tools | dict(row.arguments or {})))
        except TargetError as error:
            unless = ", or leave --system_instruction out" if added else ""
            wrong = "the turns as your trainer does"
            if row.arguments and self._renders(turns, tools):
                wrong, unless = f"its {ARGUMENTS!r}, without which it can be rendered", ""
            raise OptionError(f"{row.origin}: {error.problem}: change {wrong}, or remove the row{unless}") from None

    def _renders(self, turns: Sequence[dict[str, Any]], tools: dict[str, Any]) -> bool:
        try:
            self.render(turns, **tools)
        except TargetError:
            return False
        return True


def spoken_in(text: str, row: ChatRow) -> tuple[Span, ...]:
    """Return the parts of a rendered text that come from the turns of its row, as spans of characters.

    Contents are sought from the end, because templates write a role before what it says, and a content may be the name
    of a role. A content that the template changes has the span of its last words that are in the text, whatever the
    white space between them, and no span if it does not end with such words.
    """
    contents = [(turn.get("content") or "").strip() for turn in row.turns]
    spans: dict[int, Span] = {}
    end = len(text)
    for index, content in reversed(list(enumerate(contents))):
        if content and (start := text.rfind(content, 0, end)) >= 0:
            spans[index] = start, start + len(content)
            end = start
    first, found = len(text), dict(spans)
    for index, content in reversed(list(enumerate(contents))):
        if content and index not in found:
            after = max((stop for other, (_, stop) in found.items() if other < index), default=0)
            if (span := _last_words(text[after:first], content)) is not None:
                spans[index] = after + span[0], after + span[1]
        first = spans[index][0] if index in spans else first
    return tuple(spans[index] for index in sorted(spans))


def _last_words(text: str, content: str) -> Span | None:
    """Return the last span of the most words at the end of a content that are in a text, without its white space."""
    places = [index for index, character in enumerate(text) if not character.isspace()]
    written, words = "".join(text.split()), content.split()
    left_out = bisect_left(range(len(words)), True, key=lambda first: "".join(words[first:]) in written)
    if not (sought := "".join(words[left_out:])):
        return None
    first = written.rfind(sought)
    start, end = places[first], places[first + len(sought) - 1] + 1
    # A short word may be a part of a word of the template.
    return None if text[:start][-1:].isalnum() or text[end : end + 1].isalnum() else (start, end)


def rendered_rows(reader: Format, path: Path, layout: Layout, wanted: Columns, rendering: Rendering) -> Iterator[str]:
    """Yield the rendered text of each row. Raises OptionError if the rows hold plain text."""
    check_conversations(layout, path)
    return map(rendering.text, chat_rows(reader, path, layout, wanted))


def check_conversations(layout: Layout, path: Path) -> None:
    """Raise OptionError if the rows hold plain text."""
    if not holds_conversations(layout):
        raise no_chats(path, "plain text")


def no_chats(data: object, what: str) -> OptionError:
    """Return the error for data without conversations in a run whose other data hold some."""
    return OptionError(
        f"{data}: holds {what}, and other data of this run hold chats: with --apply_chat_template give chats only, or "
        "data without chats"
    )
