"""Roles of a conversation, and short conversations that contain a canary's text."""

from __future__ import annotations

from typing import Any, Literal, get_args

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import near

Role = Literal["assistant", "user", "system", "tool"]
Turn = Literal["new", "last", "random"]
"""The position of a copy: in a new conversation, or in the last or a random turn of a role in an existing one."""
Turns = tuple[str, ...]
"""The texts of a row: the single text, or the contents of its chat turns or of its prompt and answers."""
Conversation = list[dict[str, str]]
"""Turns, each with ``role`` and ``content``."""
USER_TURN = "Please continue."
"""The user's turn before a canary: many chat templates require that the user speaks first."""
ASSISTANT_TURN = "All right."
"""The assistant's turn after a canary of another role."""


def role_of(name: str | None, option: str) -> Role | None:
    """Return the role with this name; None for None. Raises OptionError, which names ``option``, for unknown names."""
    role: Role | None = None if name is None else _one_of(get_args(Role), name, f"{option} {name!r}: is not a role of")
    return role


def turn_of(name: str | None, option: str) -> Turn:
    """Return the position with this name; ``new`` for None. Raises OptionError, which names ``option``, for unknown
    names."""
    turn: Turn = "new" if name is None else _one_of(get_args(Turn), name, f"{option} {name!r}: is not a position in")
    return turn


def _one_of(names: tuple[Any, ...], name: str, problem: str) -> Any:
    if name not in names:
        raise OptionError(f"{problem} a chat: use {', '.join(names)}{near(name, names)}")
    return name


def conversation(
    text: str, role: Role = "assistant", system: str | None = None, prompt: str = USER_TURN
) -> Conversation:
    """Return a short conversation in which ``text`` is the turn of ``role``.

    ``text`` is the last turn if it is the assistant's; otherwise ``prompt`` or :data:`ASSISTANT_TURN` follows it.

    Args:
        text: The content of the turn.
        role: The role that speaks the turn.
        system: The content of a system turn at the start, or None.
        prompt: The content of the user's turn; unused if ``role`` is the user.
    """
    turns = {
        "assistant": [("user", prompt), (role, text)],
        "user": [(role, text), ("assistant", ASSISTANT_TURN)],
        "system": [(role, text), ("user", prompt), ("assistant", ASSISTANT_TURN)],
        "tool": [("user", prompt), (role, text), ("assistant", ASSISTANT_TURN)],
    }[role]
    first = [] if system is None else [("system", system)]
    return [{"role": speaker, "content": content} for speaker, content in (*first, *turns)]
