"""What a canary's text stands in when its cost is asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, get_args

from leakage_tasks.canaries.spaces import literal, parse_template, slot_names
from leakage_tasks.core.encoding import check_characters
from leakage_tasks.core.errors import OptionError, SpaceError

Start = Literal["auto", "bos", "none"]
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}


@dataclass(frozen=True)
class Context:
    """What stands around the text of planted canaries and controls alike.

    ``start`` is the token everything begins with: ``auto`` the model's prefix token (the harness' own: BOS, else EOS),
    ``bos`` its BOS token, ``none`` no token at all. ``before`` is text between that and the canary. The cost of a
    canary is that of its own tokens given what stands before; see :mod:`leakage_tasks.targets.causal.in_context`.
    ``after`` follows the canary, and its tokens cost as those of a template after the last slot do. ``chat`` says that
    a chat template made both, the token everything begins with among them.
    """

    start: Start = "auto"
    before: str = ""
    after: str = ""
    chat: bool = False

    @property
    def is_auto(self) -> bool:
        """Whether nothing but the prefix token stands there."""
        return self == Context()

    def __str__(self) -> str:
        """The context as ``--metadata context=…`` takes it, or part by part where it is of several."""
        if self.chat:
            return "the chat template"
        parts = {name: value for name, value in asdict(self).items() if value != getattr(Context, name)}
        if set(parts) <= {"start"}:
            return self.start
        if set(parts) == {"before"}:
            return _as_option(self.before)
        return " ".join(f"{name}={_as_option(value)}" for name, value in parts.items())

    @property
    def option(self) -> str:
        """What asks for the context on the command line."""
        return "--apply_chat_template" if self.chat else f"--metadata context={self}"

    def to_json(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


def read_context(value: Any) -> Context:
    """The context that ``--metadata context=…`` asks for: ``auto``, ``bos``, ``none``, the text before, or fields.

    In text, ``\\n``, ``\\t``, ``\\r`` and ``\\\\`` stand for a line break, a tab, a carriage return and a backslash,
    and ``{{`` and ``}}`` for braces. Raises OptionError for anything else, an empty text or a slot.
    """
    if isinstance(value, Mapping):
        return _of_fields(value)
    if not isinstance(value, str):
        raise OptionError(
            f"--metadata context={value!r}: expected auto, bos, none or a text: put it in quotes, as in context='5'"
        )
    if not value:
        raise OptionError("--metadata context= is empty: use context=none for nothing before a canary, or auto")
    return _of_fields({"start": value} if value in get_args(Start) else {"before": value})


def _of_fields(given: Mapping[str, Any]) -> Context:
    names = [field.name for field in fields(Context) if field.name != "chat"]
    for name, value in given.items():
        if name not in names or not isinstance(value, str):
            raise OptionError(f"--metadata context: {name}={value!r}: expected texts by name, of {', '.join(names)}")
    if given.get("start", "auto") not in get_args(Start):
        raise OptionError(f"--metadata context: start={given['start']!r} is unknown: use {', '.join(get_args(Start))}")
    return Context(given.get("start", "auto"), _text(given.get("before", "")), _text(given.get("after", "")))


def _text(written: str) -> str:
    check_characters("--metadata context", written)
    text = re.sub(r"\\([ntr\\])", lambda match: _ESCAPED[match.group(1)], written)
    if slots := slot_names(text):
        raise OptionError(
            f"--metadata context={written!r} has a slot, {{{slots[0]}}}: secrets belong to the canaries; write "
            "{{ and }} for braces"
        )
    try:
        return parse_template(text, slots_needed=False).fill(())
    except SpaceError:
        raise OptionError(
            f"--metadata context={written!r} has a single brace: write {{{{ and }}}} for braces"
        ) from None


def _as_option(text: str) -> str:
    """``text`` as the option takes it."""
    for mark, character in reversed(_ESCAPED.items()):
        text = text.replace(character, f"\\{mark}")
    return literal(text)
