"""Text for the options of a command: readable by the harness and the shell, with passwords and keys masked."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

HIDDEN = "HIDDEN"
"""Replacement for a password or a key."""
_PLAIN = re.compile(r"[A-Za-z_./~][\w./:@+~-]*", re.ASCII)
_KEY = re.compile(r"\w[\w.-]*", re.ASCII)
_CREDENTIAL = re.compile(
    r"^token$|(access|api|auth|hf|bearer)_token$|(^|_)(api_?key|key|secret|password|passwd|credentials?|headers?|authorization|bearer)$",
    re.I,
)
_TOKEN = re.compile(r"\b(hf_|sk-|ghp_)\w[\w-]{15,}|(?<=://)[^/\s@]+(?=@)")


def join_values(values: Mapping[str, Any]) -> str:
    """Return ``name=value,…`` if the harness would parse that back to equal values, else JSON."""
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
    return not _parses_to_other_value(value)


def _parses_to_other_value(text: str) -> bool:
    """Return True if the harness would parse ``text`` as a value other than this text."""
    for read in (float, ast.literal_eval):
        try:
            read(text)
        except (ValueError, SyntaxError):
            continue
        return True
    return False


def masked(name: str, value: Any) -> Any:
    """Return the value of option ``name`` with passwords and keys masked, including the passwords of nested options."""
    if isinstance(value, dict):
        return {key: masked(str(key) if not _CREDENTIAL.search(name) else name, v) for key, v in value.items()}
    if isinstance(value, list):
        return [masked(name, item) for item in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if value and _CREDENTIAL.search(name) else _TOKEN.sub(HIDDEN, value)


def masked_values(text: str, option: str = "") -> str:
    """Mask passwords and keys in the value of ``option``: JSON, ``name=value,…`` or other text.

    The whole value is masked if the name of the option matches a credential, or if it is invalid JSON. A part between
    commas without ``name=`` continues the value before it, so it is masked if that value is a credential.
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
    """Quote a word for the shell, line by line, so that no line of it can look like a line of the surrounding file."""
    return "".join(map(shlex.quote, word.splitlines(keepends=True) or [""]))
