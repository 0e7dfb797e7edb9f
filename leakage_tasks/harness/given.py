"""The metadata of a run as the user gave it.

The harness merges ``--model_args`` into ``--metadata`` and turns words into numbers and truth values, so that a file
called ``007`` becomes 7.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from leakage_tasks.core.errors import OptionError
from leakage_tasks.harness.default_metadata import default_metadata, read_words, with_defaults

_NAMES: ContextVar[frozenset[str]] = ContextVar("names of model arguments", default=frozenset())

_NOTHING: Mapping[str, str] = MappingProxyType({})
_WORDS: ContextVar[Mapping[str, str]] = ContextVar("values of --metadata as they were typed", default=_NOTHING)
_IGNORED: ContextVar[tuple[str, ...]] = ContextVar("names in metadata= that the harness ignores", default=())


def names_of_model() -> frozenset[str]:
    """Return the names in a task's metadata that come only from ``--model_args``; empty if they are unknown."""
    return _NAMES.get() - default_metadata().keys()


def full_metadata(merged: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's metadata with the defaults from the environment.

    ``merged`` are the metadata of the task's file, the arguments of the model, and the metadata of the run. A default
    replaces a value that is given only for the model. Raises OptionError for an invalid default, and if the harness
    ignores a part of the run's metadata.
    """
    if ignored := _IGNORED.get():
        raise OptionError(
            f"metadata={{{ignored[0]!r}: …}}: the harness ignores metadata= beside task_manager=: "
            "make the task manager with it, as in TaskManager(metadata=…)"
        )
    defaults = default_metadata()
    of_model = _NAMES.get() & defaults.keys()
    return with_defaults({name: value for name, value in merged.items() if name not in of_model}, defaults)


def as_typed(name: str, value: Any) -> Any:
    """Return the word of ``--metadata name=word`` that the harness read as ``value``, a number or truth value.

    Any other value is returned unchanged, also None for the word ``None``.
    """
    word = _WORDS.get().get(name)
    return (
        value if word is None or value is None or isinstance(value, str) or repr(_read(word)) != repr(value) else word
    )


def note_typed(text: str) -> str:
    """Record the words of ``name=word,…`` after ``--metadata``; return the text that the harness parses."""
    _WORDS.set({**_WORDS.get(), **_words(text)})
    return text


def note(model_args: Any, metadata: Any) -> None:
    """Record the arguments of the model and of the tasks before the harness merges them."""
    _NAMES.set(_alone(model_args, metadata))


@contextmanager
def noted(model_args: Any, metadata: Any) -> Iterator[None]:
    """Record the arguments of the model and of the tasks for the duration of the ``with`` block."""
    before = _NAMES.set(_alone(model_args, metadata))
    typed_before = _WORDS.set(_words(metadata) if isinstance(metadata, str) else _NOTHING)
    try:
        yield
    finally:
        _NAMES.reset(before)
        _WORDS.reset(typed_before)


@contextmanager
def forgotten_after(metadata: Any = None, manager: Any = None) -> Iterator[None]:
    """Forget the recorded arguments after the ``with`` block, which is a run.

    ``metadata`` are given beside a task ``manager``, whose own metadata the harness uses instead.
    """
    given, held = (
        values if isinstance(values, Mapping) else read_words(values or "")
        for values in (metadata, getattr(manager, "metadata", None))
    )
    ignored = (name for name, value in given.items() if name not in held or repr(held[name]) != repr(value))
    before = _IGNORED.set(tuple(ignored))
    try:
        yield
    finally:
        _IGNORED.reset(before)
        _NAMES.set(frozenset())
        _WORDS.set(_NOTHING)


def _alone(model_args: Any, metadata: Any) -> frozenset[str]:
    return frozenset(_names(model_args)) - frozenset(_names(metadata))


def _names(arguments: Any) -> list[str]:
    """Return the names of a mapping, or of ``name=value,…``."""
    return [str(name) for name in arguments] if isinstance(arguments, Mapping) else list(_words(str(arguments or "")))


def _words(text: str) -> dict[str, str]:
    """Return the values of ``name=value,…`` by name; a list in brackets is cut at its commas."""
    parts = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value for name, _, value in parts}


def _read(word: str) -> Any:
    """Convert a word as the harness does."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for read in (lambda word: int(word) if word.isnumeric() else float(word), ast.literal_eval):
        try:
            return read(word)
        except (ValueError, SyntaxError):
            continue
    return word
