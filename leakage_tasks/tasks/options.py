"""Options that a task takes from the harness' ``--metadata``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from leakage_tasks.attacks.registry import ATTACKS, BUDGET, option_names, option_of
from leakage_tasks.canaries.canary import Known
from leakage_tasks.canaries.context import Context, read_context
from leakage_tasks.core import option
from leakage_tasks.core.errors import MissingOption, OptionError
from leakage_tasks.core.former_names import current_attack, current_option
from leakage_tasks.core.log import warn_once
from leakage_tasks.core.option import declared, near, nearest, options_of
from leakage_tasks.core.registry import Registry
from leakage_tasks.core.sizes import read_size
from leakage_tasks.core.task_names import EXPOSURE, EXTRACTION
from leakage_tasks.data.chat import Role
from leakage_tasks.harness.given import as_typed, names_of_model
from leakage_tasks.pairs.rendering import Rendering

SOURCE = "--metadata"
TASKS: Registry[option.Options] = Registry(
    "task",
    "leakage_tasks.tasks.options",
    "leakage_tasks.tasks.contamination.options",
    "leakage_tasks.tasks.heldout_text",
    "leakage_tasks.tasks.label_accuracy",
    "leakage_tasks.tasks.membership.options",
    "leakage_tasks.tasks.memorization.options",
    "leakage_tasks.tasks.suffix.options",
    "leakage_tasks.tasks.untargeted.options",
)
"""Options by the name of the task; options of canary tasks are followed by the options of their attacks."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of all tasks with attacks: they decide what is shown and stored, not the results."""

    rows: Literal["brief", "all"] = declared(
        "brief", "metrics in the harness' table; results and samples have all metrics", affects_results=False
    )
    resume: str | None = declared(
        None,
        "folder to save findings in during the run; a killed run continues from it",
        affects_results=False,
    )
    model_id: str | None = declared(
        None,
        "with resume: your own name for a model behind a server; use a different name for each model",
        affects_results=False,
    )

    def hold_chats(self) -> bool:
        """Return True if rows of the data are conversations, which trainers render with a chat template."""
        return False

    def rendered(self, rendering: Rendering | None) -> Self:
        """Return the options with a rendering of the data's conversations; None joins their turns."""
        return self


@dataclass(frozen=True, kw_only=True)
class SearchOptions(RunOptions):
    """Options of the tasks whose attacks keep texts in memory."""

    memory: int | None = declared(
        None,
        "memory for the run in addition to the model, such as 2GB",
        usual="40% of the free memory",
        affects_results=False,
        type=object,
    )


@dataclass(frozen=True)
class Options(SearchOptions):
    """Values of ``--metadata`` for one task: options given for all tasks, and options given under the task's name."""

    canaries: str | None = declared(
        None, "manifest of the canaries to attack; builtin for a self-test", usual="builtin"
    )
    attack: str = declared("auto", "attack to run; auto selects the best attack that the model supports")
    budget: int | None = declared(
        None, "maximum number of sequences scored per canary; taggers may take more", minimum=1, usual=str(BUDGET)
    )
    seed: int = declared(0, "random seed", affects_results=False)
    reveal: bool = declared(False, "show natural secrets in samples", affects_results=False)
    known: Known | None = declared(None, "the part of the template that the attacker knows", usual="the manifest's")
    source_language: str | None = declared(
        None, "language code of source sentences, in the tokenizer of a translation model"
    )
    target_language: str | None = declared(None, "language code of target sentences")
    context: Context = declared(Context(), "text before and after every canary", type=object)
    role: Role | None = declared(
        None,
        "role whose turns hold the canaries, with --apply_chat_template",
        usual="as planted",
    )
    prefill: bool = declared(
        False,
        "send the beginning of a canary's turn to an endpoint that takes only messages, for the model to continue",
    )
    planted: str | None = declared(None, "training data with the canaries, as proof of planting")
    preflight: str | None = declared(
        None, "file of leakage preflight or ExposureCallback: the number of copies whose secret was in the loss"
    )
    values: Mapping[str, Any] = field(default_factory=dict)
    """Options of attacks, plain or as ``attack.option``."""
    general: frozenset[str] = frozenset()
    """Names of attack options that were given for all tasks and may be meant for another task."""

    def for_others(self, tasks: Collection[str]) -> list[str]:
        """Return the names of general options that one of the other ``tasks`` takes, too."""
        taken = {name for task in tasks if task in TASKS for name in TASKS[task]}
        return sorted(self.general & taken)


CANARY_OPTIONS = options_of(Options)
for _name in (EXPOSURE, EXTRACTION):
    TASKS.register(_name, CANARY_OPTIONS, Options)


def read_options(metadata: Mapping[str, Any], task: str) -> Options:
    """Return the options for ``task``: the general options, overridden by those under its own name.

    Unknown names are ignored, unless they look like a misspelt option. Raises OptionError for an invalid option.
    """
    metadata = with_current_attacks(metadata, task)
    of_task, metadata = own_options(metadata, task), without_model_names(metadata, CANARY_OPTIONS)
    attack = str({**metadata, **of_task}.get("attack") or "auto")
    known = dict(CANARY_OPTIONS)
    for name in {*metadata, *of_task} - {*known}:
        if (option_ := option_of(name, attack)) is not None and not isinstance(metadata.get(name), Mapping):
            known[name] = option_
    _, typed = typed_options(metadata, task, known)
    if "context" in typed:
        written = typed["context"]
        typed["context"] = read_context(written if "context" in of_task else as_typed("context", written))
    values = {name: value for name, value in typed.items() if name not in CANARY_OPTIONS}
    if of_task.get("attack") is not None:
        # General options may be meant for the attacks of other tasks.
        values = {name: value for name, value in values.items() if name in of_task or _of(attack, name)}
    plain = {name.removeprefix(f"{attack}."): value for name, value in values.items()}
    general = frozenset(plain.keys() - of_task.keys())
    return Options(**declared_values(typed, Options), values=plain, general=general)


def with_current_attacks(metadata: Mapping[str, Any], task: str) -> dict[str, Any]:
    """Return ``metadata`` with current names of attacks, also under the task's own name."""
    named = {current_option(name): value for name, value in metadata.items()}
    if isinstance(named.get("attack"), str):
        named["attack"] = current_attack(named["attack"])
    of_task = named.get(task)
    return {**named, task: with_current_attacks(of_task, "")} if task and isinstance(of_task, Mapping) else named


def without_model_names(metadata: Mapping[str, Any], options: option.Options) -> Mapping[str, Any]:
    """Return ``metadata`` without names that were given only for the model.

    The harness adds the model's arguments to the metadata. Options that both task and model take are kept.
    """
    of_model = names_of_model()
    both = {name for name, declared_option in options.items() if declared_option.of_model}
    return {name: value for name, value in metadata.items() if name not in of_model or name in both}


def warn_of_unused(metadata: Mapping[str, Any], tasks: Collection[str]) -> None:
    """Warn once of each general option that other tasks of this package take, but none of the ``tasks`` of the run."""
    if not all(task in TASKS for task in tasks):
        return
    used = {name for task in tasks for name in TASKS[task]}
    if any(TASKS[task] is CANARY_OPTIONS for task in tasks):
        used |= {*option_names()}
    for name in sorted({current_option(name) for name in without_model_names(metadata, {})} - used - {*TASKS}):
        takers = sorted(task for task in TASKS if name in TASKS[task])
        if takers:
            warn_once(f"{SOURCE} {name}=… has no effect here: only {', '.join(takers)} can take it, so leave it out")


def own_options(metadata: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    """Return the metadata under the task's own name. Raises OptionError if they are not a mapping."""
    of_task = metadata.get(task, {})
    if not isinstance(of_task, Mapping):
        raise OptionError(
            f'{SOURCE} {task}={of_task!r}: expected options by name, as in \'{{"{task}": {{"seed": 1}}}}\''
        )
    return of_task


def typed_options(
    metadata: Mapping[str, Any], task: str, options: option.Options
) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """Return the metadata under the task's own name, and the checked values of ``options``.

    Options may be given under the task's name or for all tasks. Raises OptionError for an invalid value.
    """
    of_task, metadata = own_options(metadata, task), without_model_names(metadata, options)
    names = {*options, *option_names()} if CANARY_OPTIONS.keys() <= options.keys() else {*options}
    for name in of_task:
        if name not in options:
            use = ", ".join(sorted(names))
            raise OptionError(f"{SOURCE}: {task} has no option {name!r}: use {use}{near(name, names)}")
    elsewhere = {*TASKS, *option_names(), *(name for each in TASKS.values() for name in each)}
    for name in metadata.keys() - names - elsewhere:
        like = nearest(name, names, 0.7)
        # A further word, as in tokenizer_mode, makes another name: models of the harness have such arguments.
        if like and not name.startswith(f"{like}_"):
            raise OptionError(f"{SOURCE} {name}=…: no such option; did you mean {like!r}?")
    values = {name: {**metadata, **of_task}[name] for name in options if name in metadata or name in of_task}
    # A file or model may be called 007 or true.
    words = {name for name, declared_option in options.items() if declared_option.type is str and name not in of_task}
    values = {name: as_typed(name, value) if name in words else value for name, value in values.items()}
    read = {name: options[name].checked(options[name].read(value, SOURCE)) for name, value in values.items()}
    return of_task, {name: value for name, value in read.items() if value is not None}


def picked(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return the values of the options ``names`` that were given."""
    return {name: values[name] for name in names if name in values}


def declared_values(values: Mapping[str, Any], record: type) -> dict[str, Any]:
    """Return the given values of the options that a dataclass declares, for its constructor; ``memory`` in bytes."""
    chosen = picked(values, options_of(record))
    return {**chosen, "memory": read_size(chosen["memory"])} if "memory" in chosen else chosen


def options_with_data(metadata: Mapping[str, Any], task: str, options: option.Options, needs: str) -> dict[str, Any]:
    """Return the checked values of ``options``, given for all tasks or under the task's name.

    Text is read with the model's own tokenizer unless another is given. Raises OptionError for an invalid value, and
    MissingOption, whose message says what the task ``needs``, without ``data``.
    """
    _, values = typed_options(metadata, task, options)
    if "data" not in values:
        raise MissingOption(f"{task} needs {needs}")
    if "tokenizer" not in values and isinstance(metadata.get("pretrained"), str):
        values["tokenizer"] = metadata["pretrained"]
    return values


def _of(attack: str, name: str) -> bool:
    """Return True if an option, as ``name`` or ``owner.name``, belongs to ``attack``.

    If ``attack`` is unknown or empty, return True for every option.
    """
    owner, _, plain = name.rpartition(".")
    return attack not in ATTACKS or (owner in ("", attack) and plain in ATTACKS[attack].options_by_name)
