"""The choice of turns in existing conversations to which copies of canaries are added."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError, PlantingError
from leakage_tasks.data.chat import Role, Turn
from leakage_tasks.data.layout import Additions
from leakage_tasks.data.turns import turns_by


def check_turns(
    turn: Turn, label_column: str | None, source_column: str | None, label: str | None, prompt: str | None = None
) -> None:
    """Raise OptionError for options that apply only to inserted rows, because an existing conversation has these
    values."""
    row_options = {
        "--label-column": label_column,
        "--source-column": source_column,
        "--label": label,
        "--prompt": prompt,
    }
    for option, value in row_options.items():
        if value is not None:
            raise OptionError(
                f"--chat-position {turn} puts copies into existing conversations, which have a class, a source and a "
                f"prompt of their own: leave out {option}, or use --chat-position new"
            )


def draw_turns(
    source: Path, chats: Iterable[Any], role: Role, draw: tuple[Turn, str], canaries: Iterable[Canary]
) -> tuple[Additions, int]:
    """Return a turn of ``role`` for every copy of every canary, and the number of conversations without such a turn.

    Conversations are drawn uniformly and without replacement from the conversations with a text of the role, so each
    copy is in its own conversation. The copy goes into the last such turn, or into a uniformly drawn one.

    Args:
        source: The data, for error messages.
        chats: The conversations of all rows.
        role: The role whose turn gets a copy.
        draw: The position, ``last`` or ``random``, and the seed.
        canaries: The canaries to plant.

    Raises:
        PlantingError: If there are too few conversations.
    """
    turn, seed = draw
    turns_by_row = [turns_by(chat, role) for chat in chats]
    able = [(row, turns) for row, turns in enumerate(turns_by_row) if turns]
    copies = [canary.text for canary in canaries for _ in range(canary.repetitions)]
    if len(able) < len(copies):
        raise PlantingError(
            subject=str(source),
            problem=f"{len(able):,} conversations have a text of the {role}'s, and {len(copies):,} copies need "
            "one each",
            remedy=f"plant fewer, or give other data or {{}} other than {turn}",
            option="chat_position",
        )
    stream = random.Random(f"turns:{seed}")
    additions = {}
    for text, (row, turns) in zip(copies, stream.sample(able, len(copies)), strict=True):
        additions[row] = (turns[-1] if turn == "last" else stream.choice(turns), text)
    return additions, len(turns_by_row) - len(able)
