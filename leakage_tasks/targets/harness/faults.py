"""Errors that come out of a harness model: a fault in its forward pass, or a model without log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules import module

from leakage_tasks.core.errors import ForwardPassError, LeakageError, ReadingError
from leakage_tasks.core.log import first_line
from leakage_tasks.harness.api import CachingLM
from leakage_tasks.targets.memory import out_of_memory

COMPUTES_ITSELF = frozenset({"HFLM", "VLLM", "SGLangLM"})
"""Models that compute log-likelihoods in this process, by name: an error of such a model is never a missing feature."""
NOT_IN_THE_ANSWER = (AssertionError, ValueError, KeyError, TypeError)
"""Errors that models raise if a server's answer holds no log-probabilities, or if the server's API has none."""


def kinds(lm: Any) -> tuple[str, ...]:
    """Names of the classes of a model, nearest first; a cache around it is looked through."""
    while isinstance(lm, CachingLM):
        lm = lm.lm
    return tuple(each.__name__ for each in type(lm).__mro__)


def in_forward_pass(error: BaseException) -> bool:
    """Return whether an error left the forward pass of a module of torch."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == module.__file__:
            return True
        trace = trace.tb_next
    return False


def gives_no_likelihoods(lm: Any, error: Exception) -> bool:
    """Return whether an error of ``loglikelihood`` says that the model has none to give.

    The harness' models raise NotImplementedError. Models that send requests to a server fail in several ways when its
    answer holds no log-probabilities; an OSError of such a model is about the connection.
    """
    if in_forward_pass(error):
        return False
    if isinstance(error, NotImplementedError):
        return True
    missing = isinstance(error, NOT_IN_THE_ANSWER) and not isinstance(error, OSError)
    return missing and not COMPUTES_ITSELF.intersection(kinds(lm))


@contextmanager
def forward_faults(lm: Any) -> Iterator[None]:
    """Raise ForwardPassError for an error that leaves the model's forward pass, unless memory ran out."""
    try:
        yield
    except LeakageError:
        raise
    except Exception as error:
        if not in_forward_pass(error) or out_of_memory(error):
            raise
        raise ForwardPassError.of(_name(lm), type(error).__name__, first_line(error)) from error


@contextmanager
def private_forward_faults(lm: Any, reveal: bool) -> Iterator[None]:
    """Do as :func:`forward_faults`; unless ``reveal``, without the model's own words, which may hold text of pairs."""
    try:
        with forward_faults(lm):
            yield
    except ReadingError as error:
        if reveal:
            raise
        raise type(error)(error.brief) from None


def _name(lm: Any) -> str:
    """The class of the model that is read, or of the harness' model around it."""
    inner = getattr(lm, "model", None)
    return type(inner).__name__ if isinstance(inner, nn.Module) else kinds(lm)[0]
