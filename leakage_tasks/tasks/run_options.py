"""Options of a run that change nothing for our tasks, and saying so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lm_eval.api.model import LM, CacheHook

from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.log import warn_once


def refuse_option(option: str, why: str, alone: bool) -> None:
    """Warn, once in a process, of an option that may be meant for other tasks of the run.

    Raises OptionError where a task is ``alone``, with none but ours beside it: nobody can have been meant then.
    """
    message = f"{option} changes nothing for leakage tasks: {why}"
    if alone:
        raise OptionError(f"{message}; no other task is in this run, so leave it out")
    warn_once(message)


@contextmanager
def uncached(lm: LM) -> Iterator[None]:
    """Keep what is asked in between out of the cache of ``--use_cache``, with one warning if there is one.

    The harness' cache answers neither attacks nor labels, yet a model would put the texts they lead to into it.
    """
    hook = getattr(lm, "cache_hook", None)
    if getattr(hook, "dbdict", None) is None:
        yield
        return
    warn_once("--use_cache changes nothing for leakage tasks: they ask the model anew, and none of it is kept")
    lm.set_cache_hook(CacheHook(None))
    try:
        yield
    finally:
        lm.set_cache_hook(hook)
