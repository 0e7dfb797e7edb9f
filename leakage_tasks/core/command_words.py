"""Options of a command as words that the harness and a shell read as what was meant, without what is secret in them."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

HIDDEN = "HIDDEN"
"""What stands in the place of a password or a key."""
_PLAIN = re.compile(r"[A-Za-z_./~][\w./:@+~-]*", re.ASCII)
_KEY = re.compile(r"\w[\w.-]*", re.ASCII)
_CREDENTIAL = re.compile(
    r"^token$|(access|api|auth|hf|bearer)_token$|(^|_)(api_?key|key|secret|password|passwd|credentials?|headers?|authorization|bearer)$",
    re.I,
)
_TOKEN = re.compile(r"\b(hf_|sk-|ghp_)\w[\w-]{15,}|(?<=://)[^/\s@]+(?=@)")


def settings(values: Mapping[str, Any]) -> str:
    """``name=value,…`` where the harness reads that as the same values, else JSON."""
    if all(_KEY.fullmatch(name) and _is_plain(value) for name, value in values.items()):
        return ",".join(f"{name}={value}" for name, value in values.items())
    return json.dumps(values, ensure_ascii=False)


def _is_plain(value: Any) -> bool:
    if isinstance(value, bool):
        return True
    if isinstance(value, int):
        return value >= 0
    if not isinstance(value, str) or not _PLAIN.fullmatch(value) or value.lower() in ("true", "false"):
        return False
    return not _reads_otherwise(value)


def _reads_otherwise(text: str) -> bool:
    """Whether the harness would take a text for something else than that text."""
    for read in (float, ast.literal_eval):
        try:
            read(text)
        except (ValueError, SyntaxError):
            continue
        return True
    return False


def masked(name: str, value: Any) -> Any:
    """The value of an option called ``name`` without passwords and keys, its own and those of options in it."""
    if isinstance(value, dict):
        return {each: masked(str(each) if not _CREDENTIAL.search(name) else name, v) for each, v in value.items()}
    if isinstance(value, list):
        return [masked(name, each) for each in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if value and _CREDENTIAL.search(name) else _TOKEN.sub(HIDDEN, value)


def masked_settings(text: str, option: str = "") -> str:
    """What stands after ``option``, JSON or ``name=value,…`` or any text, without passwords and keys.

    All of it is hidden where the option is called like one, and so is JSON that cannot be read. A part between commas
    that is no ``name=value`` goes on with the value before it, which may be a secret's.
    """
    if text and _CREDENTIAL.search(option):
        return HIDDEN
    if text.startswith(("{", "[")):
        try:
            return json.dumps(masked(option, json.loads(text)), ensure_ascii=False)
        except ValueError:
            return HIDDEN
    parts, name = [], option
    for part in text.split(","):
        key, sign, value = part.partition("=")
        if sign and _KEY.fullmatch(key):
            name = key
            parts.append(f"{key}={masked(key, value)}")
        else:
            parts.append(str(masked(name, part)))
    return ",".join(parts)


def quoted(word: str) -> str:
    """A word for the shell. Its lines are quoted one by one, so that none can pass for a line of the file around it."""
    return "".join(map(shlex.quote, word.splitlines(keepends=True) or [""]))
