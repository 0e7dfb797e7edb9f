"""A check if the harness itself reads the entry points of installed packages; the plugin then does not register
them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, ModuleType

MODELS, TASKS = "lm_eval.models", "lm_eval.tasks"
"""The entry-point groups that this package uses."""

_PLACES = ("lm_eval.api.registry", MODELS, TASKS, "lm_eval.tasks.manager", "lm_eval.tasks._index")
# The standard library's reader, and the function of the harness' registry that calls it.
_READERS = {"entry_points", "load_plugins"}


def harness_reads(group: str) -> bool:
    """Return True if a module of the harness calls a reader of entry points and names ``group`` in its code.

    The compiled code of the imported modules that list models and tasks is searched, as a harness may read a group
    much later, when a name is first used. Comments and docstrings do not count.
    """
    return any(_reads(module, group) for place in _PLACES if (module := sys.modules.get(place)))


def _reads(module: ModuleType, group: str) -> bool:
    get_code = getattr(getattr(module.__spec__, "loader", None), "get_code", None)
    code = get_code(module.__name__) if get_code else None
    words = set(_words_of(code)) if code else set()
    return ("text", group) in words and any(("name", reader) in words for reader in _READERS)


def _words_of(constant: object) -> Iterator[tuple[str, str]]:
    """Yield the names that compiled code looks up and the texts it contains, including inner functions and tuples."""
    if isinstance(constant, CodeType):
        yield from (("name", name) for name in constant.co_names)
    elif isinstance(constant, str):
        yield "text", constant
    inside = constant.co_consts if isinstance(constant, CodeType) else constant
    if isinstance(inside, tuple):
        for inner in inside:
            yield from _words_of(inner)
