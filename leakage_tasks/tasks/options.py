"""Options a task takes through the harness' ``--metadata``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from leakage_tasks.attacks.registry import known_settings, settings_of
from leakage_tasks.canaries.canary import Known
from leakage_tasks.canaries.context import Context, read_context
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option_types import CANARY_TYPES, HELDOUT_NAMES, SUFFIX_TYPES

Rows = Literal["brief", "all"]


@dataclass(frozen=True)
class Options:
    """What ``--metadata`` may set, for all tasks or under a task's name for that one."""

    canaries: str | None = None
    attack: str = "auto"
    budget: int | None = None
    seed: int = 0
    reveal: bool = False
    known: Known | None = None
    """How much of its template the attacker is given; None for what each canary says."""
    source_language: str | None = None
    """The code a translation model's tokenizer has for the language of source sentences; None for its own usual one."""
    target_language: str | None = None
    """The same for target sentences; None for what the model or its tokenizer says."""
    context: Context = Context()
    """What stands around every canary."""
    planted: str | None = None
    """The data the canaries were planted in, which proves it."""
    preflight: str | None = None
    """What a look at the training data found before training: of how many copies the secrets were in the loss."""
    rows: Rows = "brief"
    """Whether the harness' table has ``all`` rows; results and samples have them in any case."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Options of attacks, by name."""


def read_options(metadata: Mapping[str, Any], task: str) -> Options:
    """The options for ``task``: those for all tasks, overridden by those under its own name.

    The harness mixes the model's arguments into the same mapping, so a name that is none of ours is left
    alone, unless it looks like one of ours misspelt. Raises OptionError.
    """
    types = CANARY_TYPES | {name: setting.type for name, setting in known_settings().items()}
    own, typed = typed_options(metadata, task, types, {*SUFFIX_TYPES, *HELDOUT_NAMES})
    for name, words in (("known", get_args(Known)), ("rows", get_args(Rows))):
        if typed.get(name) not in (None, *words):
            raise OptionError(f"--metadata {name}={typed[name]!r} is unknown: use {', '.join(words)}")
    asked = {**metadata, **own}
    if "context" in asked:
        typed["context"] = read_context(asked["context"])
    settings = {name: value for name, value in typed.items() if name not in CANARY_TYPES}
    if own.get("attack") is not None:
        # What stands there for all tasks may be for the attacks of others.
        kept = [*own, *(setting.name for setting in settings_of(str(typed["attack"])))]
        settings = {name: value for name, value in settings.items() if name in kept}
    return Options(**{name: value for name, value in typed.items() if name in CANARY_TYPES}, settings=settings)


def typed_options(
    metadata: Mapping[str, Any], task: str, types: Mapping[str, type], others: Iterable[str] = ()
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """What stands under the task's own name, and the options of ``types`` that were given for it or for all.

    ``others`` are names of other tasks' options, which are no misspelt ones. Raises OptionError.
    """
    own = metadata.get(task, {})
    if not isinstance(own, Mapping):
        raise OptionError(f'--metadata {task}={own!r}: expected options by name, as in \'{{"{task}": {{"seed": 1}}}}\'')
    for name in own:
        if name not in types:
            raise OptionError(f"--metadata: {task} has no option {name!r}: use {', '.join(types)}")
    for name in metadata:
        near = [] if name in types or name in others else difflib.get_close_matches(name, types, 1, 0.7)
        # A word more, as in tokenizer_mode, makes another name: harness models have such arguments.
        if near and not name.startswith(f"{near[0]}_"):
            raise OptionError(f"--metadata {name}=…: no such option; did you mean {near[0]!r}?")
    given = {name: {**metadata, **own}[name] for name in types if name in metadata or name in own}
    return own, {name: _typed(name, types[name], value) for name, value in given.items() if value is not None}


def _typed(name: str, wanted: type, value: Any) -> Any:
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise OptionError(f"--metadata {name}: too large a number: expected one below 1e308") from None
    if wanted is str:
        if isinstance(value, (bool, dict, list)):
            raise OptionError(f"--metadata {name}={value!r}: expected text")
        return str(value)
    if wanted is list:
        return _numbers(name, value)
    if wanted is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
        raise OptionError(f"--metadata {name}={value!r}: expected {wanted.__name__}")
    return value


def _numbers(name: str, value: Any) -> list[int]:
    """Whole numbers from a list, or from a text with colons between, as a comma would end the option."""
    parts = value if isinstance(value, list) else str(value).split(":")
    try:
        return [int(str(part)) for part in parts]
    except ValueError:
        raise OptionError(f"--metadata {name}={value!r}: expected whole numbers, as in {name}=10:20:30") from None
