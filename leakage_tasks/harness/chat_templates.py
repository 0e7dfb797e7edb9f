"""The model of a run and the name of its chat template, which the harness does not pass on to tasks."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from types import ModuleType
from typing import Any

_NAME: ContextVar[str | None] = ContextVar("name of a chat template", default=None)
_MODEL: ContextVar[Any] = ContextVar("model of a run", default=None)
_REFUSALS = ("The specified chat template ", "This model has multiple chat templates ")
"""The first words of the harness' errors about the name of a chat template."""


def template_name() -> str | None:
    """Return the name of the chat template given for the run, or None."""
    return _NAME.get()


def running_model() -> Any:
    """Return the harness model of the run; None outside of a run."""
    return _MODEL.get()


def keep_template_names(evaluator: ModuleType) -> None:
    """Make the harness record the model and the name of the chat template, and report errors about it in one line."""
    module = vars(evaluator)
    evaluate, simple_evaluate = module["evaluate"], module["simple_evaluate"]

    @functools.wraps(evaluate)
    def noting(*args: Any, **kwargs: Any) -> Any:
        given = signature(evaluate).bind_partial(*args, **kwargs).arguments
        name = given.get("apply_chat_template")
        before = _NAME.set(name if isinstance(name, str) else None), _MODEL.set(given.get("lm"))
        try:
            return evaluate(*args, **kwargs)
        finally:
            _NAME.reset(before[0])
            _MODEL.reset(before[1])

    @functools.wraps(simple_evaluate)
    def in_one_line(*args: Any, **kwargs: Any) -> Any:
        with _one_line():
            return simple_evaluate(*args, **kwargs)

    module["evaluate"], module["simple_evaluate"] = noting, in_one_line


@contextmanager
def _one_line() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        if not str(error).startswith(_REFUSALS):
            raise
        from leakage_tasks.core.errors import OptionError

        raise OptionError(f"--apply_chat_template: {error}") from None
