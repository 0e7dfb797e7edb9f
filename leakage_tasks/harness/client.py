"""The harness' client of servers, without its bars and without reports on requests that nobody awaits."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm.asyncio import tqdm_asyncio

MODULE = "lm_eval.models.api_models"
"""The module of the client; it needs packages that may be missing."""
BARS = ("tqdm", "tqdm_asyncio")
"""The names of the classes of its bars in the module."""


class _HiddenBar(tqdm_asyncio):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **{**named, "disable": True})


@contextmanager
def quiet_client() -> Iterator[None]:
    """Hide a bar for each batch of requests, and after an error the tracebacks of all other requests of the batch.

    The client has no argument for its bars. Its concurrent requests fail together, but it awaits only the first one.
    """
    client = sys.modules.get(MODULE)
    usual = {name: getattr(client, name) for name in BARS if hasattr(client, name)}
    try:
        for name in usual:
            setattr(client, name, _HiddenBar)
        yield
    except Exception:
        _retrieve_errors()
        raise
    finally:
        for name, bar in usual.items():
            setattr(client, name, bar)


def _retrieve_errors() -> None:
    """Retrieve the errors of tasks of closed event loops, since a task prints an error that was never retrieved."""
    for task in gc.get_objects():
        if type(task) is asyncio.Task and task.get_loop().is_closed() and task.done() and not task.cancelled():
            task.exception()
