"""The arguments of a run, such as the name of its chat template, which the harness does not pass on to tasks."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import signature
from types import MappingProxyType, ModuleType
from typing import Any

_RUN: ContextVar[Mapping[str, Any]] = ContextVar("arguments of a run", default=MappingProxyType({}))
_REFUSALS = ("The specified chat template ", "This model has multiple chat templates ")
"""The first words of the harness' errors about the name of a chat template."""


def run_arguments() -> Mapping[str, Any]:
    """Return the arguments of the harness' ``evaluate``, such as ``lm``; empty outside of a run."""
    return _RUN.get()


def template_name() -> str | None:
    """Return the name of the chat template given for the run, or None."""
    name = run_arguments().get("apply_chat_template")
    return name if isinstance(name, str) else None


def keep_run_arguments(evaluator: ModuleType) -> None:
    """Make the harness record the arguments of a run, and report errors about its chat template in one line."""
    module = vars(evaluator)
    evaluate, simple_evaluate = module["evaluate"], module["simple_evaluate"]

    @functools.wraps(evaluate)
    def noting(*args: Any, **kwargs: Any) -> Any:
        before = _RUN.set(signature(evaluate).bind_partial(*args, **kwargs).arguments)
        try:
            return evaluate(*args, **kwargs)
        finally:
            _RUN.reset(before)

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
