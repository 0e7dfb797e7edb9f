"""Options a task takes through the harness' ``--metadata``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from leakage_tasks.errors import OptionError


@dataclass(frozen=True)
class Options:
    """What ``--metadata`` may set, for all tasks or under a task's name for that one."""

    canaries: str | None = None
    attack: str = "auto"
    budget: int | None = None
    seed: int = 0
    reveal: bool = False


NAMES = tuple(option.name for option in fields(Options))
_TYPES: dict[str, type] = {"canaries": str, "attack": str, "budget": int, "seed": int, "reveal": bool}


def read_options(metadata: Mapping[str, Any], task: str) -> Options:
    """The options for ``task``: those for all tasks, overridden by those under its own name.

    The harness mixes the model's arguments into the same mapping, so a name that is none of ours is left
    alone, unless it looks like one of ours misspelt. Raises OptionError.
    """
    own = metadata.get(task, {})
    if not isinstance(own, Mapping):
        raise OptionError(f'--metadata {task}={own!r}: expected options by name, as in \'{{"{task}": {{"seed": 1}}}}\'')
    for name in own:
        if name not in NAMES:
            raise OptionError(f"--metadata: {task} has no option {name!r}: use {', '.join(NAMES)}")
    for name in metadata:
        near = [] if name in NAMES else difflib.get_close_matches(name, NAMES, 1, 0.7)
        if near:
            raise OptionError(f"--metadata {name}=…: no such option; did you mean {near[0]!r}?")
    given = {name: {**metadata, **own}[name] for name in NAMES if name in metadata or name in own}
    return Options(**{name: _typed(name, value) for name, value in given.items() if value is not None})


def _typed(name: str, value: Any) -> Any:
    wanted = _TYPES[name]
    if wanted is str and not isinstance(value, (dict, list)):
        return str(value)
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise OptionError(f"--metadata {name}={value!r}: expected {wanted.__name__}")
    return value
