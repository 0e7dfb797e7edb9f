"""Which options of a run were given for its model: the harness merges ``--model_args`` into ``--metadata``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_NAMES: ContextVar[frozenset[str]] = ContextVar("names of model arguments", default=frozenset())


def names_of_model() -> frozenset[str]:
    """Names in the mapping that tasks are given which ``--model_args`` alone said; none where that is not known."""
    return _NAMES.get()


def note(model_args: Any, metadata: Any) -> None:
    """Note what was said for the model and what for the tasks, before the harness makes one of both."""
    _NAMES.set(_alone(model_args, metadata))


@contextmanager
def noted(model_args: Any, metadata: Any) -> Iterator[None]:
    """The same for the time of the block."""
    before = _NAMES.set(_alone(model_args, metadata))
    try:
        yield
    finally:
        _NAMES.reset(before)


@contextmanager
def kept() -> Iterator[None]:
    """What was noted holds for the block, a run, and for none after it."""
    try:
        yield
    finally:
        _NAMES.set(frozenset())


def _alone(model_args: Any, metadata: Any) -> frozenset[str]:
    return frozenset(_names(model_args)) - frozenset(_names(metadata))


def _names(given: Any) -> list[str]:
    """The names of a mapping, or of ``name=value,…``."""
    if isinstance(given, Mapping):
        return [str(name) for name in given]
    return [each.partition("=")[0].strip() for each in str(given or "").split(",") if "=" in each]
