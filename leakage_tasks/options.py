"""Options a task takes through the harness' ``--metadata``."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.attacks.registry import known_settings, settings_of
from leakage_tasks.errors import OptionError


@dataclass(frozen=True)
class Options:
    """What ``--metadata`` may set, for all tasks or under a task's name for that one."""

    canaries: str | None = None
    attack: str = "auto"
    budget: int | None = None
    seed: int = 0
    reveal: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of attacks, by name."""


_TYPES: dict[str, type] = {"canaries": str, "attack": str, "budget": int, "seed": int, "reveal": bool}


def read_options(metadata: Mapping[str, Any], task: str) -> Options:
    """The options for ``task``: those for all tasks, overridden by those under its own name.

    The harness mixes the model's arguments into the same mapping, so a name that is none of ours is left
    alone, unless it looks like one of ours misspelt. Raises OptionError.
    """
    types = _TYPES | {name: setting.kind for name, setting in known_settings().items()}
    own = metadata.get(task, {})
    if not isinstance(own, Mapping):
        raise OptionError(f'--metadata {task}={own!r}: expected options by name, as in \'{{"{task}": {{"seed": 1}}}}\'')
    for name in own:
        if name not in types:
            raise OptionError(f"--metadata: {task} has no option {name!r}: use {', '.join(types)}")
    for name in metadata:
        near = [] if name in types else difflib.get_close_matches(name, types, 1, 0.7)
        if near:
            raise OptionError(f"--metadata {name}=…: no such option; did you mean {near[0]!r}?")
    given = {name: {**metadata, **own}[name] for name in types if name in metadata or name in own}
    typed = {name: _typed(name, types[name], value) for name, value in given.items() if value is not None}
    settings = {name: value for name, value in typed.items() if name not in _TYPES}
    if "attack" in own:
        # What stands there for all tasks may be for the attacks of others.
        kept = [*own, *(setting.name for setting in settings_of(str(typed["attack"])))]
        settings = {name: value for name, value in settings.items() if name in kept}
    return Options(**{name: value for name, value in typed.items() if name in _TYPES}, settings=settings)


def _typed(name: str, wanted: type, value: Any) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if wanted is str and not isinstance(value, (dict, list)):
        return str(value)
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise OptionError(f"--metadata {name}={value!r}: expected {wanted.__name__}")
    return value
