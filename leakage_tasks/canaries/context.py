"""The text and start token around a canary during an audit."""

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
    """The text around planted canaries and controls.

    ``start`` is the first token of the input: ``auto`` is the model's prefix token (chosen by the harness: BOS, else
    EOS), ``bos`` its BOS token, ``none`` no token. ``before`` is the text between the start token and the canary. The
    cost of a canary is the cost of its own tokens given the text before them; see
    :mod:`leakage_tasks.targets.causal.in_context`. ``after`` follows the canary; its tokens count as if they were part
    of the template after the last slot. ``chat`` is True if a chat template made both texts, including the start token.
    """

    start: Start = "auto"
    before: str = ""
    after: str = ""
    chat: bool = False

    @property
    def is_auto(self) -> bool:
        """True if the canary follows the prefix token and has no other text around it."""
        return self == Context()

    def __str__(self) -> str:
        """Return the context in the form of ``--metadata context=…``, or as ``name=value`` parts if it has several."""
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
        """The command-line option that sets this context."""
        return "--apply_chat_template" if self.chat else f"--metadata context={self}"

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name."""
        return asdict(self)


def read_context(value: Any) -> Context:
    r"""Read ``--metadata context=…``: a start token of :data:`Start`, the text before a canary, or fields by name.

    In text, ``\n``, ``\t``, ``\r`` and ``\\`` are a line break, a tab, a carriage return and a backslash, and ``{{``
    and ``}}`` are braces. Raises OptionError for any other value, an empty text or a text with a slot.
    """
    if isinstance(value, Mapping):
        return _of_fields(value)
    if not isinstance(value, str):
        raise OptionError(
            f"--metadata context={value!r}: expected {', '.join(get_args(Start))} or a text: put it in quotes, as in "
            "context='5'"
        )
    if not value:
        raise OptionError(
            f"--metadata context= is empty: use {', '.join(get_args(Start))}, or a text before the canaries"
        )
    return _of_fields({"start": value} if value in get_args(Start) else {"before": value})


def _of_fields(values: Mapping[str, Any]) -> Context:
    names = [field.name for field in fields(Context) if field.name != "chat"]
    for name, value in values.items():
        if name not in names or not isinstance(value, str):
            raise OptionError(f"--metadata context: {name}={value!r}: expected texts by name, of {', '.join(names)}")
    if values.get("start", "auto") not in get_args(Start):
        raise OptionError(f"--metadata context: start={values['start']!r} is unknown: use {', '.join(get_args(Start))}")
    return Context(values.get("start", "auto"), _text(values.get("before", "")), _text(values.get("after", "")))


def _text(written: str) -> str:
    check_characters("--metadata context", written)
    text = unescaped(written)
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


def unescaped(text: str) -> str:
    r"""Return a text with ``\n``, ``\t``, ``\r`` and ``\\`` replaced by the characters that they represent."""
    return re.sub(r"\\([ntr\\])", lambda match: _ESCAPED[match.group(1)], text)


def _as_option(text: str) -> str:
    for mark, character in reversed(_ESCAPED.items()):
        text = text.replace(character, f"\\{mark}")
    return literal(text)
