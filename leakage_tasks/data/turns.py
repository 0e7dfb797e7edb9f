"""Conversations in data: reading turns in all common notations, and writing new conversations.

Turns have ``role`` and ``content`` (OpenAI) or ``from`` and ``value`` (ShareGPT). The content is a text, a list of
parts such as ``{"type": "text", "text": …}``, or missing, as in a turn that only calls tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from leakage_tasks.data.chat import Conversation, Role, Turns

KEYS = (("role", "content"), ("from", "value"))
"""The fields of a turn for its speaker and its content: OpenAI's names, then ShareGPT's."""
ROLES: dict[str, Role] = {
    **{role: role for role in get_args(Role)},
    **dict.fromkeys(("gpt", "model", "chatgpt", "bot"), "assistant"),
    "human": "user",
    **dict.fromkeys(("observation", "function", "ipython"), "tool"),
}
"""The role for each name that occurs in data."""
SHAREGPT_NAMES: dict[Role, str] = {"assistant": "gpt", "user": "human", "system": "system", "tool": "observation"}
"""The names of roles in ShareGPT data."""
_TURN_FIELDS = "'role' and 'content', or 'from' and 'value'"
"""The fields of a turn, for error messages."""


def is_turn(turn: Any) -> bool:
    """Return True if a value is a turn of a conversation."""
    keys = keys_of(turn) if isinstance(turn, dict) else None
    return keys is not None and _is_content(turn.get(keys[1]))


def is_chat(value: Any) -> bool:
    """Return True if a value is a list of turns."""
    return isinstance(value, list) and all(map(is_turn, value))


def looks_like_chat(value: Any) -> bool:
    """Return True if a value seems to be a list of turns, even if the turns have faults."""
    return isinstance(value, list) and (not value or any(isinstance(turn, dict) for turn in value))


def chat_problem(value: Any) -> str:
    """Describe why a value is not a conversation, as the end of a sentence that begins with its column."""
    if not isinstance(value, list):
        return f"holds {type(value).__name__}, expected chat turns with {_TURN_FIELDS}"
    number, turn = next((number, turn) for number, turn in enumerate(value, 1) if not is_turn(turn))
    if not isinstance(turn, dict):
        return f"holds {type(turn).__name__} as turn {number}, expected an object with {_TURN_FIELDS}"
    keys = keys_of(turn)
    if keys is None:
        return f"has neither {_TURN_FIELDS.replace(', or', ' nor')} in turn {number}"
    type_name = type(turn[keys[1]]).__name__
    return f"holds {type_name} as {keys[1]!r} of turn {number}, expected text or a list of parts"


def keys_of(turn: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the fields of a turn's speaker and content; None if it has neither."""
    for keys in KEYS:
        if keys[0] in turn or keys[1] in turn:
            return keys
    return None


def role_in(turn: Any) -> Role | None:
    """Return the role that speaks a turn; None for an unknown role."""
    keys = keys_of(turn) if isinstance(turn, dict) else None
    name = None if keys is None else turn.get(keys[0])
    return ROLES.get(name) if isinstance(name, str) else None


def turns_of(value: Any) -> Turns:
    """Return the texts in a value of a text column: the single text, or the texts of all turns and their parts."""
    if isinstance(value, str):
        return (value,)
    texts: list[str] = []
    for turn in value or ():
        texts += texts_in(turn)
    return tuple(texts)


def texts_in(turn: Mapping[str, Any] | None) -> Turns:
    """Return the texts in the content of one turn; none of a null turn, which typed columns can hold."""
    keys = keys_of(turn or {})
    content = None if turn is None or keys is None else turn.get(keys[1])
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else ()
    return tuple(text for part in parts if (text := _text_of(part)) is not None)


def turns_by(value: Any, role: Role) -> list[int]:
    """Return the indices of the turns of ``role`` with a text to extend, without turns that call tools."""
    return [index for index, turn in enumerate(value or ()) if role_in(turn) == role and _takes_text(turn)]


def text_part(parts: list[Any]) -> int | None:
    """Return the index of the last text part of a content; None if no part is a text."""
    indices = (index for index in reversed(range(len(parts))) if _is_text_part(parts[index]))
    return next(indices, None)


@dataclass(frozen=True)
class Dialect:
    """The notation of a column's conversations, in which new conversations are written.

    ``keys`` are the fields of a turn; ``names`` are the names of roles. ``parts`` is True if contents are lists of
    parts, unless ``parts_of`` differs for the speaker's role. ``opened`` is True if the conversations begin with a turn
    of the system or the user.
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
    """Return the dialect of a conversation; None for other values, and for a conversation without content."""
    if not is_chat(value):
        return None
    turns = [turn for turn in value if (keys := keys_of(turn)) and turn.get(keys[1]) is not None]
    if not turns:
        return None
    keys = keys_of(turns[0]) or KEYS[0]
    spoken = {role: turn[keys[0]] for turn in value if keys[0] in turn and (role := role_in(turn)) is not None}
    plain = keys == KEYS[0] or not {"user", "assistant"}.isdisjoint(spoken.values())
    names = {**(Dialect().names if plain else SHAREGPT_NAMES), **spoken}
    # In a chat about images, possibly only the user's turns have parts.
    contents = [(role_in(turn), turn.get(keys[1])) for turn in reversed(turns)]
    parts_of = {role: isinstance(content, list) for role, content in contents if role is not None}
    is_opened = role_in(value[0]) in ("system", "user")
    return Dialect(keys, names, isinstance(turns[0][keys[1]], list), is_opened, parts_of)


def first_dialect(values: Iterable[Any]) -> Dialect | None:
    """Return the dialect of the first of ``values`` that has one."""
    return next((dialect for value in values if (dialect := dialect_of(value)) is not None), None)


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
    if turn.get("tool_calls") or turn.get("function_call"):
        return False  # some chat templates, such as that of Llama 3.1, drop the text of such a turn
    keys = keys_of(turn)
    content = None if keys is None else turn.get(keys[1])
    return isinstance(content, str) or (isinstance(content, list) and text_part(content) is not None)
