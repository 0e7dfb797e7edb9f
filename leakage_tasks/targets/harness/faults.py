"""Errors raised by a harness model: faults in its forward pass or its server, and models without log-likelihoods."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from torch import nn
from torch.nn.modules import module

from leakage_tasks.core.errors import ForwardPassError, LeakageError, QuotingError, ServerError
from leakage_tasks.core.log import first_line
from leakage_tasks.harness.api import CachingLM
from leakage_tasks.harness.client import quiet_client
from leakage_tasks.targets.memory import out_of_memory

COMPUTES_ITSELF = frozenset({"HFLM", "VLLM", "SGLangLM"})
"""Model classes that compute log-likelihoods in this process; their errors never mean a missing feature."""
NOT_IN_THE_ANSWER = (AssertionError, ValueError, KeyError, TypeError)
"""Errors of models if a server's answer holds no log-probabilities, or if the server's API does not support them."""
SENDS_REQUESTS = "TemplateAPI"
"""The base class of the harness' models that send requests to servers."""
CLIENTS = frozenset({"aiohttp", "httpx", "openai", "requests", "urllib3"})
"""Packages that send requests to servers; by name, since importing a package that is not installed fails."""


def class_names(lm: Any) -> tuple[str, ...]:
    """Return the names of a model's class and its bases, nearest first; a caching wrapper is ignored."""
    while isinstance(lm, CachingLM):
        lm = lm.lm
    return tuple(kind.__name__ for kind in type(lm).__mro__)


def in_forward_pass(error: BaseException) -> bool:
    """Return True if an error was raised inside the forward pass of a torch module."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == module.__file__:
            return True
        trace = trace.tb_next
    return False


def gives_no_likelihoods(lm: Any, error: Exception) -> bool:
    """Return True if an error of ``loglikelihood`` means that the model cannot give log-likelihoods.

    The harness' models raise NotImplementedError. Models that send requests to a server fail in several ways if its
    answer holds no log-probabilities; an OSError of such a model is about the connection.
    """
    if in_forward_pass(error):
        return False
    if isinstance(error, NotImplementedError):
        return True
    missing = isinstance(error, NOT_IN_THE_ANSWER) and not isinstance(error, OSError)
    return missing and not COMPUTES_ITSELF.intersection(class_names(lm))


def from_server(lm: Any, error: BaseException) -> bool:
    """Return True if an error of a model states that its server cannot be reached, refused a request or took too long.

    The client of concurrent requests raises Python's own TimeoutError.
    """
    if COMPUTES_ITSELF.intersection(class_names(lm)):
        return False
    return isinstance(error, TimeoutError) or type(error).__module__.partition(".")[0] in CLIENTS


@contextmanager
def forward_faults(lm: Any) -> Iterator[None]:
    """Raise ForwardPassError for an error that leaves the model's forward pass, unless memory ran out.

    Raises ServerError for an error of the client that sends a model's requests to a server.
    """
    try:
        with quiet_client() if SENDS_REQUESTS in class_names(lm) else nullcontext():
            yield
    except LeakageError:
        raise
    except Exception as error:
        if from_server(lm, error):
            raise ServerError.of(class_names(lm)[0], type(error).__name__, first_line(error)) from error
        if not in_forward_pass(error) or out_of_memory(error):
            raise
        raise ForwardPassError.of(_name(lm), type(error).__name__, first_line(error)) from error


@contextmanager
def private_forward_faults(lm: Any, reveal: bool) -> Iterator[None]:
    """Apply :func:`forward_faults`; unless ``reveal``, omit the error's message, which may contain text of pairs."""
    try:
        with forward_faults(lm):
            yield
    except QuotingError as error:
        if reveal:
            raise
        raise type(error)(error.brief) from None


def _name(lm: Any) -> str:
    """Return the class name of the inner model, or else of the harness' model."""
    inner = getattr(lm, "model", None)
    return type(inner).__name__ if isinstance(inner, nn.Module) else class_names(lm)[0]
