"""Default metadata of tasks from the environment, for programs that start ``lm_eval`` without ``--metadata``."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.core.command_words import join_values
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.inputs import json_fault, parse_json

VARIABLE = "LM_EVAL_LEAKAGE_METADATA"
"""Environment variable with a JSON object of options, as ``--metadata`` takes them; empty counts as unset."""
_EXPECTED = f'expected a JSON object, as in {VARIABLE}=\'{{"canaries": "canaries.jsonl"}}\''


def default_metadata() -> dict[str, Any]:
    """Return the options that the environment variable holds; empty if it is unset.

    Raises OptionError for invalid JSON, and for JSON that is not an object.
    """
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        return {}
    try:
        values = parse_json(text)
    except json.JSONDecodeError as error:
        fault = json_fault(error)
        raise OptionError(
            f"{VARIABLE}: not JSON: {fault.reason} at line {fault.line}, column {fault.column}: {_EXPECTED}"
        ) from None
    except ValueError as error:
        raise OptionError(f"{VARIABLE}: not JSON: {error}: {_EXPECTED}") from None
    if not isinstance(values, dict):
        raise OptionError(f"{VARIABLE}: holds JSON of type {type(values).__name__}: {_EXPECTED}")
    return values


def with_defaults(given: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return ``given`` with the default of each option that it lacks.

    ``defaults`` are by default the result of :func:`default_metadata`. An option that is given for all tasks also
    replaces the defaults under the names of single tasks.
    """
    defaults = default_metadata() if defaults is None else defaults
    merged = dict(given)
    for name, value in defaults.items():
        if isinstance(value, Mapping):
            of_task = given.get(name, {})
            kept = {option: default for option, default in value.items() if option not in given}
            merged[name] = {**kept, **of_task} if isinstance(of_task, Mapping) else of_task
        else:
            merged.setdefault(name, value)
    return merged


def command_with_defaults(words: Sequence[str]) -> list[str]:
    """Return the arguments of ``lm_eval`` with the defaults written into ``--metadata``, so that they work without the
    variable.

    A command with a configuration file is returned unchanged, because the file may hold metadata.
    """
    defaults = default_metadata()
    if not defaults or any(word.partition("=")[0] in ("--config", "-C") for word in words):
        return list(words)
    rest: list[str] = []
    metadata: list[str] = []
    in_metadata = False
    for word in words:
        option, sign, value = word.partition("=")
        if option == "--metadata":
            in_metadata = not sign
            metadata += [value] if sign else []
        elif in_metadata and not word.startswith("-"):
            metadata.append(word)
        else:
            in_metadata = False
            rest.append(word)
    return [*rest, "--metadata", _with_values(metadata, defaults)]


def _with_values(metadata: Sequence[str], defaults: Mapping[str, Any]) -> str:
    """Return the values of ``--metadata`` with the defaults, as one word for the command line."""
    given: dict[str, Any] = {}
    for word in metadata:
        given |= read_words(word)
    values = with_defaults(given, defaults)
    added = join_values({name: value for name, value in values.items() if name not in given or value != given[name]})
    words = [word for word in (*metadata, added) if word]
    if any(word.lstrip().startswith("{") for word in words):
        return join_values(values)
    # Words stay as they were typed, because the harness reads the name of a file such as 007 as a number.
    return ",".join(words)


def read_words(text: str) -> dict[str, Any]:
    """Return the values of ``--metadata``, given as JSON or as ``name=value,…``. Raises ValueError for another form."""
    try:
        values: dict[str, Any] = json.loads(text)
        return values
    except ValueError:
        return dict(importlib.import_module("lm_eval._cli.utils").key_val_to_dict(text))
