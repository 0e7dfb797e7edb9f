"""Conversations in data: one reader for every common dialect of turns, and how a new one is written.

Turns have ``role`` and ``content`` (OpenAI) or ``from`` and ``value`` (ShareGPT). The content is a text, a list of
parts such as ``{"type": "text", "text": …}``, or missing, as in a turn that only calls tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from leakage_tasks.data.chat import Conversation, Role, Turns

KEYS = (("role", "content"), ("from", "value"))
"""The fields of a turn that name its speaker and hold its content, in each dialect."""
ROLES: dict[str, Role] = {
    **{role: role for role in get_args(Role)},
    **dict.fromkeys(("gpt", "model", "chatgpt", "bot"), "assistant"),
    "human": "user",
    **dict.fromkeys(("observation", "function", "ipython"), "tool"),
}
"""The role behind each name that data have for it."""
SHAREGPT_NAMES: dict[Role, str] = {"assistant": "gpt", "user": "human", "system": "system", "tool": "observation"}
"""The names of roles in ShareGPT data."""
_TURN_FIELDS = "'role' and 'content', or 'from' and 'value'"
"""The fields of a turn, for error messages."""


def is_turn(turn: Any) -> bool:
    """Return whether a value is a turn of a conversation."""
    keys = keys_of(turn) if isinstance(turn, dict) else None
    return keys is not None and _is_content(turn.get(keys[1]))


def is_chat(value: Any) -> bool:
    """Return whether a value is a list of turns."""
    return isinstance(value, list) and all(map(is_turn, value))


def looks_like_chat(value: Any) -> bool:
    """Return whether a value is meant for a list of turns, perhaps with faults."""
    return isinstance(value, list) and (not value or any(isinstance(turn, dict) for turn in value))


def chat_problem(value: Any) -> str:
    """Describe why a value is no conversation, as the end of a sentence that begins with its column."""
    if not isinstance(value, list):
        return f"holds {type(value).__name__}, expected chat turns with {_TURN_FIELDS}"
    number, turn = next((number, turn) for number, turn in enumerate(value, 1) if not is_turn(turn))
    if not isinstance(turn, dict):
        return f"holds {type(turn).__name__} as turn {number}, expected an object with {_TURN_FIELDS}"
    keys = keys_of(turn)
    if keys is None:
        return f"has neither {_TURN_FIELDS.replace(', or', ' nor')} in turn {number}"
    found = type(turn[keys[1]]).__name__
    return f"holds {found} as {keys[1]!r} of turn {number}, expected text or a list of parts"


def keys_of(turn: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the fields of a turn's speaker and content; None if it has neither."""
    for keys in KEYS:
        if keys[0] in turn or keys[1] in turn:
            return keys
    return None


def role_in(turn: Any) -> Role | None:
    """Return who speaks a turn; None for speakers of another role."""
    keys = keys_of(turn) if isinstance(turn, dict) else None
    name = None if keys is None else turn.get(keys[0])
    return ROLES.get(name) if isinstance(name, str) else None


def turns_of(value: Any) -> Turns:
    """Return the texts in a value of a text column: the one text, or those of all turns and their parts."""
    if isinstance(value, str):
        return (value,)
    texts: list[str] = []
    for turn in value or ():
        texts += texts_in(turn)
    return tuple(texts)


def texts_in(turn: Mapping[str, Any]) -> Turns:
    """Return the texts in the content of one turn."""
    keys = keys_of(turn)
    content = None if keys is None else turn.get(keys[1])
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(text for part in parts if (text := _text_of(part)) is not None)


def turns_by(value: Any, role: Role) -> list[int]:
    """Return the places of the turns of ``role`` that a text can be added to: calls of tools alone have no text."""
    return [index for index, turn in enumerate(value or ()) if role_in(turn) == role and _takes_text(turn)]


def text_part(parts: list[Any]) -> int | None:
    """Return the place of the last part of a content that is a text; None if no part is."""
    places = (index for index in reversed(range(len(parts))) if _is_text_part(parts[index]))
    return next(places, None)


@dataclass(frozen=True)
class Dialect:
    """The dialect of the conversations of a column, in which a new conversation is written.

    ``keys`` are the fields of a turn; ``names`` the names of roles; ``parts`` is True if contents are lists of parts,
    unless ``parts_of`` says otherwise for the speaker's role; ``opened`` is True if the conversations begin with what
    the system or the user says.
    """

    keys: tuple[str, str] = KEYS[0]
    names: Mapping[Role, str] = field(default_factory=lambda: {role: role for role in get_args(Role)})
    parts: bool = False
    opened: bool = True
    parts_of: Mapping[Role, bool] = field(default_factory=dict)

    def write(self, conversation: Conversation) -> list[dict[str, Any]]:
        """Write a conversation of ``role`` and ``content`` in this dialect."""
        return [self._turn(ROLES[turn["role"]], turn["content"]) for turn in conversation]

    def _turn(self, role: Role, text: str) -> dict[str, Any]:
        speaker, content = self.keys
        has_parts = self.parts_of.get(role, self.parts)
        return {speaker: self.names[role], content: [{"type": "text", "text": text}] if has_parts else text}


def dialect_of(value: Any) -> Dialect | None:
    """Return the dialect of a conversation; None for other values, and for one without any content."""
    if not is_chat(value):
        return None
    said = [turn for turn in value if (keys := keys_of(turn)) and turn.get(keys[1]) is not None]
    if not said:
        return None
    keys = keys_of(said[0]) or KEYS[0]
    spoken = {role: turn[keys[0]] for turn in value if keys[0] in turn and (role := role_in(turn)) is not None}
    plain = keys == KEYS[0] or not {"user", "assistant"}.isdisjoint(spoken.values())
    names = {**(Dialect().names if plain else SHAREGPT_NAMES), **spoken}
    # Only the user's turns of a chat about images may have parts.
    contents = [(role_in(turn), turn.get(keys[1])) for turn in reversed(said)]
    parts_of = {role: isinstance(content, list) for role, content in contents if role is not None}
    is_opened = role_in(value[0]) in ("system", "user")
    return Dialect(keys, names, isinstance(said[0][keys[1]], list), is_opened, parts_of)


def first_dialect(values: Iterable[Any]) -> Dialect | None:
    """Return the dialect of the first of ``values`` that has one."""
    return next((found for value in values if (found := dialect_of(value)) is not None), None)


def _is_content(content: Any) -> bool:
    return content is None or isinstance(content, str) or _are_parts(content)


def _are_parts(content: Any) -> bool:
    return isinstance(content, list) and all(isinstance(part, dict | str) for part in content)


def _text_of(part: Any) -> str | None:
    text = part.get("text") if isinstance(part, dict) else part
    return text if isinstance(text, str) else None


def _is_text_part(part: Any) -> bool:
    return _text_of(part) is not None and (isinstance(part, str) or part.get("type") in (None, "text"))


def _takes_text(turn: Mapping[str, Any]) -> bool:
    keys = keys_of(turn)
    content = None if keys is None else turn.get(keys[1])
    return isinstance(content, str) or (isinstance(content, list) and text_part(content) is not None)
