"""What was given for the tasks of a run before the harness changed it.

It merges ``--model_args`` into ``--metadata``, and makes numbers and truth values of words, so that a file called
``007`` becomes 7.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

_NAMES: ContextVar[frozenset[str]] = ContextVar("names of model arguments", default=frozenset())

_NOTHING: Mapping[str, str] = MappingProxyType({})
_WORDS: ContextVar[Mapping[str, str]] = ContextVar("values of --metadata as they were typed", default=_NOTHING)


def names_of_model() -> frozenset[str]:
    """Names in the mapping that tasks are given which ``--model_args`` alone said; none where that is not known."""
    return _NAMES.get()


def as_typed(name: str, value: Any) -> Any:
    """Return the word of ``--metadata name=word`` where the harness read it as ``value``, a number or truth value.

    Any other value is returned as it is, None for the word ``None`` too.
    """
    word = _WORDS.get().get(name)
    return (
        value if word is None or value is None or isinstance(value, str) or repr(_read(word)) != repr(value) else word
    )


def note_typed(text: str) -> str:
    """Note the words of ``name=word,…`` that somebody typed after ``--metadata``; return the text for the harness."""
    _WORDS.set({**_WORDS.get(), **_words(text)})
    return text


def note(model_args: Any, metadata: Any) -> None:
    """Note what was said for the model and what for the tasks, before the harness makes one of both."""
    _NAMES.set(_alone(model_args, metadata))


@contextmanager
def noted(model_args: Any, metadata: Any) -> Iterator[None]:
    """The same for the time of the block."""
    before = _NAMES.set(_alone(model_args, metadata))
    typed_before = _WORDS.set(_words(metadata) if isinstance(metadata, str) else _NOTHING)
    try:
        yield
    finally:
        _NAMES.reset(before)
        _WORDS.reset(typed_before)


@contextmanager
def kept() -> Iterator[None]:
    """What was noted holds for the block, a run, and for none after it."""
    try:
        yield
    finally:
        _NAMES.set(frozenset())
        _WORDS.set(_NOTHING)


def _alone(model_args: Any, metadata: Any) -> frozenset[str]:
    return frozenset(_names(model_args)) - frozenset(_names(metadata))


def _names(given: Any) -> list[str]:
    """The names of a mapping, or of ``name=value,…``."""
    return [str(name) for name in given] if isinstance(given, Mapping) else list(_words(str(given or "")))


def _words(text: str) -> dict[str, str]:
    """Return the values of ``name=value,…`` by name; those with commas in brackets are cut, and are no single words."""
    parts = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value for name, _, value in parts}


def _read(word: str) -> Any:
    """Return a word as the harness reads it."""
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for read in (lambda word: int(word) if word.isnumeric() else float(word), ast.literal_eval):
        try:
            return read(word)
        except (ValueError, SyntaxError):
            continue
    return word
