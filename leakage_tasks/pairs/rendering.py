"""Rows that hold conversations, as a chat template renders them for training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from leakage_tasks.canaries.chat import Render
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.data import Columns, Format, Layout
from leakage_tasks.data.conversations import ChatRow, chat_rows, holds_conversations


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
        try:
            return self.render(turns, **{**({"tools": row.tools} if row.tools else {}), **(row.arguments or {})})
        except TargetError as error:
            unless = ", or leave --system_instruction out" if added else ""
            raise OptionError(
                f"{row.origin}: {error.problem}: change the turns as your trainer does, or remove the row{unless}"
            ) from None


def spoken_in(text: str, row: ChatRow) -> tuple[tuple[int, int], ...]:
    """Return the parts of a rendered text that come from the turns of its row, as spans of characters.

    A content that the template changes has no span, except if it only strips white space. Contents are sought from the
    end, because templates write a role before what it says, and a content may be the name of a role.
    """
    spans, end = [], len(text)
    for turn in reversed(row.turns):
        content = turn.get("content") or ""
        for said in filter(None, (content, content.strip())):
            start = text.rfind(said, 0, end)
            if start >= 0:
                spans.append((start, start + len(said)))
                end = start
                break
    return tuple(reversed(spans))


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
