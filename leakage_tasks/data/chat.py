"""Roles of a conversation, and one with a turn that is a canary's text, as a chat template gets it."""

from __future__ import annotations

from typing import Literal, get_args

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import near

Role = Literal["assistant", "user", "system", "tool"]
Turn = Literal["new", "last", "random"]
"""Where a copy goes: into a conversation of its own, or into the last or a random turn of a role in one there is."""
Turns = tuple[str, ...]
"""The texts of a row: the one text, or the contents of its chat turns or of its prompt and answers."""
Conversation = list[dict[str, str]]
"""Turns, each with ``role`` and ``content``."""
USER_TURN = "Please continue."
"""The user's turn before a canary: chat templates of many models refuse an assistant who speaks first."""
ASSISTANT_TURN = "All right."
"""What the assistant says after a canary that is not its own."""


def role_of(name: str | None, option: str) -> Role | None:
    """The role of that name. Raises OptionError, which blames ``option``, where there is none."""
    found: dict[str | None, Role | None] = {None: None, **{role: role for role in get_args(Role)}}
    if name not in found:
        roles = get_args(Role)
        raise OptionError(f"{option} {name!r}: is nobody in a chat: use {', '.join(roles)}{near(str(name), roles)}")
    return found[name]


def turn_of(name: str | None, option: str) -> Turn:
    """The place of that name, ``new`` for none. Raises OptionError, which blames ``option``, where there is none."""
    found: dict[str | None, Turn] = {None: "new", **{turn: turn for turn in get_args(Turn)}}
    if name not in found:
        turns = get_args(Turn)
        raise OptionError(f"{option} {name!r}: is no turn to plant in: use {', '.join(turns)}{near(str(name), turns)}")
    return found[name]


def conversation(
    text: str, role: Role = "assistant", system: str | None = None, prompt: str = USER_TURN
) -> Conversation:
    """Return a short conversation in which ``text`` is the turn of ``role``.

    ``system`` goes first, if it is given. ``prompt`` is the user's turn, unless the user says ``text``. ``text`` is the
    last turn if it is the assistant's; otherwise ``prompt`` or :data:`ASSISTANT_TURN` follows it.
    """
    turns = {
        "assistant": [("user", prompt), (role, text)],
        "user": [(role, text), ("assistant", ASSISTANT_TURN)],
        "system": [(role, text), ("user", prompt), ("assistant", ASSISTANT_TURN)],
        "tool": [("user", prompt), (role, text), ("assistant", ASSISTANT_TURN)],
    }[role]
    first = [] if system is None else [("system", system)]
    return [{"role": who, "content": said} for who, said in (*first, *turns)]
