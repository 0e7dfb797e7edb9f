"""Options a task takes through the harness' ``--metadata``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from leakage_tasks.attacks.registry import ATTACKS, BUDGET, option_names, option_of
from leakage_tasks.canaries.canary import Known
from leakage_tasks.canaries.context import Context, read_context
from leakage_tasks.core import option
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.former_names import current_attack, current_option
from leakage_tasks.core.option import declared, near, nearest, options_of
from leakage_tasks.core.registry import Registry
from leakage_tasks.core.sizes import read_size
from leakage_tasks.data.chat import Role
from leakage_tasks.harness.given import as_typed, names_of_model

SOURCE = "--metadata"
TASKS: Registry[option.Options] = Registry(
    "task",
    "leakage_tasks.tasks.options",
    "leakage_tasks.tasks.heldout_text",
    "leakage_tasks.tasks.label_accuracy",
    "leakage_tasks.tasks.suffix.options",
)
"""The options of our tasks, by the task's name; those of canary tasks are followed by those of their attacks."""


@dataclass(frozen=True)
class Options:
    """What ``--metadata`` may set, for all tasks or under a task's name for that one."""

    canaries: str | None = declared(
        None, "the manifest of the canaries to attack; builtin for a self-test", usual="builtin"
    )
    attack: str = declared("auto", "which attack is run; auto for the best that the model can serve")
    budget: int | None = declared(
        None, "how many sequences may be scored for a canary; more with taggers", minimum=1, usual=str(BUDGET)
    )
    seed: int = declared(0, "the seed of random draws", of_model=True, affects_results=False)
    reveal: bool = declared(False, "whether samples show natural secrets", affects_results=False)
    known: Known | None = declared(None, "how much of its template the attacker is given", usual="the manifest's")
    source_language: str | None = declared(
        None, "the code a translation model's tokenizer has for the language of source sentences"
    )
    target_language: str | None = declared(None, "the same for target sentences")
    context: Context = declared(Context(), "what stands around every canary", type=object)
    role: Role | None = declared(
        None,
        "whose turn of a chat the canaries are, with --apply_chat_template",
        usual="as planted",
    )
    prefill: bool = declared(
        False, "whether an endpoint that takes messages alone is sent the beginning of a canary's turn, to go on from"
    )
    planted: str | None = declared(None, "the data the canaries were planted in, which proves it")
    preflight: str | None = declared(
        None, "what a look at the training data found: of how many copies the secrets were in the loss"
    )
    rows: Literal["brief", "all"] = declared(
        "brief", "which rows the harness' table has; results and samples have all", affects_results=False
    )
    resume: str | None = declared(
        None,
        "a folder that findings are kept in as they come, for a run that was killed to go on from",
        affects_results=False,
    )
    model_id: str | None = declared(
        None,
        "with resume, your name for a model whose weights are elsewhere; another one for another model",
        affects_results=False,
    )
    memory: int | None = declared(
        None,
        "the memory that a run takes beside the model, such as 2GB",
        usual="40% of what is free",
        affects_results=False,
        type=object,
    )
    values: Mapping[str, Any] = field(default_factory=dict)
    """Options of attacks, plain or as ``attack.option``."""
    general: frozenset[str] = frozenset()
    """Those of them that were given for all tasks, so perhaps for another one."""

    def for_others(self, tasks: Collection[str]) -> list[str]:
        """The names of those that one of other ``tasks`` takes as well."""
        taken = {name for task in tasks if task in TASKS for name in TASKS[task]}
        return sorted(self.general & taken)


CANARY_OPTIONS = options_of(Options)
for _name in ("canary_exposure", "canary_extraction"):
    TASKS.register(_name, CANARY_OPTIONS, Options)


def read_options(metadata: Mapping[str, Any], task: str) -> Options:
    """The options for ``task``: those for all tasks, overridden by those under its own name.

    A name that is none of ours is left alone, unless it looks like one of ours misspelt. Raises OptionError.
    """
    metadata = with_current_attacks(metadata, task)
    own, metadata = own_options(metadata, task), said_for_tasks(metadata, CANARY_OPTIONS)
    attack = str({**metadata, **own}.get("attack") or "auto")
    known = dict(CANARY_OPTIONS)
    for name in {*metadata, *own} - {*known}:
        if (found := option_of(name, attack)) is not None and not isinstance(metadata.get(name), Mapping):
            known[name] = found
    _, typed = typed_options(metadata, task, known)
    if "context" in typed:
        written = typed["context"]
        typed["context"] = read_context(written if "context" in own else as_typed("context", written))
    if "memory" in typed:
        typed["memory"] = read_size(typed["memory"])
    values = {name: value for name, value in typed.items() if name not in CANARY_OPTIONS}
    if own.get("attack") is not None:
        # What stands there for all tasks may be for the attacks of others.
        values = {name: value for name, value in values.items() if name in own or _of(attack, name)}
    plain = {name.removeprefix(f"{attack}."): value for name, value in values.items()}
    general = frozenset(plain.keys() - own.keys())
    rest = {name: value for name, value in typed.items() if name in CANARY_OPTIONS}
    return Options(**rest, values=plain, general=general)


def with_current_attacks(metadata: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return ``metadata`` with the names that attacks have now, those under the task's own name too."""
    named = {current_option(name): value for name, value in metadata.items()}
    if isinstance(named.get("attack"), str):
        named["attack"] = current_attack(named["attack"])
    own = named.get(task)
    return {**named, task: with_current_attacks(own, "")} if task and isinstance(own, Mapping) else named


def said_for_tasks(metadata: Mapping[str, Any], options: option.Options) -> Mapping[str, Any]:
    """``metadata`` without what was said for the model alone, which the harness mixes in, but for options of both."""
    of_model = names_of_model()
    both = {name for name, each in options.items() if each.of_model}
    return {name: value for name, value in metadata.items() if name not in of_model or name in both}


def own_options(metadata: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """What stands under the task's own name. Raises OptionError."""
    own = metadata.get(task, {})
    if not isinstance(own, Mapping):
        raise OptionError(f'{SOURCE} {task}={own!r}: expected options by name, as in \'{{"{task}": {{"seed": 1}}}}\'')
    return own


def typed_options(
    metadata: Mapping[str, Any], task: str, options: option.Options
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """What stands under the task's own name, and the ``options`` that were given for it or for all, read and checked.

    Raises OptionError.
    """
    own, metadata = own_options(metadata, task), said_for_tasks(metadata, options)
    names = {*options, *option_names()} if CANARY_OPTIONS.keys() <= options.keys() else {*options}
    for name in own:
        if name not in options:
            use = ", ".join(sorted(names))
            raise OptionError(f"{SOURCE}: {task} has no option {name!r}: use {use}{near(name, names)}")
    elsewhere = {*option_names(), *(name for each in TASKS.values() for name in each)}
    for name in metadata.keys() - names - elsewhere:
        like = nearest(name, names, 0.7)
        # A word more, as in tokenizer_mode, makes another name: harness models have such arguments.
        if like and not name.startswith(f"{like}_"):
            raise OptionError(f"{SOURCE} {name}=…: no such option; did you mean {like!r}?")
    given = {name: {**metadata, **own}[name] for name in options if name in metadata or name in own}
    # A file or model may be called 007 or true.
    words = {name for name, each in options.items() if each.type is str and name not in own}
    given = {name: as_typed(name, value) if name in words else value for name, value in given.items()}
    read = {name: options[name].checked(options[name].read(value, SOURCE)) for name, value in given.items()}
    return own, {name: value for name, value in read.items() if value is not None}


def _of(attack: str, name: str) -> bool:
    """Whether an option, plain or with its owner, is one of ``attack``; any is where that is none or unknown."""
    owner, _, plain = name.rpartition(".")
    return attack not in ATTACKS or (owner in ("", attack) and plain in ATTACKS[attack].options_by_name)
