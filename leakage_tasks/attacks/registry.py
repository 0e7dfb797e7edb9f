"""Registry of attacks: the goal of each, the target protocols it needs, and its options."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Never, TypeVar, get_args

from leakage_tasks.attacks.access import access_by_protocol
from leakage_tasks.attacks.classes import AttackClass
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core import former_names
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.former_names import accept_former_arguments, accept_former_names
from leakage_tasks.core.option import Option, by_name, near, resolved
from leakage_tasks.core.registry import WORD, PluginError, Registry, check_callable
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.noise import NO_NOISE, Noise
from leakage_tasks.targets.protocols import serves

Goal = Literal["exposure", "extraction"]
RunTogether = Callable[[Sequence["AttackRequest"]], Iterator[AttackResult]]
AnyRun = TypeVar("AnyRun", bound=Callable[[Any], Any])
Access = Callable[[Sequence[type], Any, Mapping[str, Any]], str]
"""Maps an attack's needs, the target and the values of the attack's options to a description of its access."""
BUDGET = 20_000


@accept_former_names(settings="values")
@dataclass(frozen=True)
class AttackRequest:
    """One canary to attack, with target, budget (sequences) and the seed of the canary's own random stream."""

    target: Any
    canary: Canary
    budget: int
    seed: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """A value for each of the attack's options, by name."""
    noise: Noise = NO_NOISE
    """The rounding noise of the target's costs."""

    @property
    def tokens(self) -> int | None:
        """Number of tokens of the canary's text that have a cost; None if the model does not report it."""
        length: int | None = self.target.length(self.canary.attack_space.fill(self.canary.secret))
        return None if length is None else length + 1 - getattr(self.target, "unscored", 1)


def texts_in_budget(request: AttackRequest) -> Calls:
    """Return the most calls of an attack that scores as many whole texts as its budget allows."""
    return Calls(texts=request.budget)


@accept_former_names(settings="options", together="batched")
@dataclass(frozen=True)
class Attack:
    """A registered attack: its goal, the target protocols that it needs, and the function that runs it.

    ``run`` yields the fields of a finding for each request, in the order of the requests. A ``batched`` attack may work
    on all requests at once.
    """

    name: str
    goal: Goal
    needs: tuple[type, ...]
    run: RunTogether
    remedy: str
    auto: int | None
    affordable: Callable[[AttackRequest], bool]
    options: tuple[Option, ...] = ()
    batched: bool = False
    access: Access = access_by_protocol
    classes: tuple[AttackClass, ...] = ()
    """The classes of the attack; empty for the classes of its task."""
    most_calls: Callable[[AttackRequest], Calls] = texts_in_budget
    """Returns the most calls of the model that the attack makes for a canary."""

    def resolve_options(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return a value for each of the attack's options.

        ``values`` has them by plain name or as ``attack.option``. Raises OptionError for an invalid value.
        """
        named = {
            name: values[f"{self.name}.{name}"] for name in self.options_by_name if f"{self.name}.{name}" in values
        }
        return resolved(self.options, {**values, **named})

    @property
    def options_by_name(self) -> dict[str, Option]:
        """The attack's options by name."""
        return by_name(self.options)


AUTO = "auto"
TASK_OPTIONS = frozenset(
    [
        "attack",
        "budget",
        "canaries",
        "context",
        "known",
        "memory",
        "model_id",
        "planted",
        "prefill",
        "preflight",
        "resume",
        "reveal",
        "role",
        "rows",
        "seed",
        "source_language",
        "target_language",
    ]
)
"""The options of the canary tasks, which an attack's options must not shadow."""
ATTACKS: Registry[Attack] = Registry(
    "attack",
    "leakage_tasks.attacks.causal",
    "leakage_tasks.attacks.classifier",
    "leakage_tasks.attacks.inversion",
    group="lm_eval_leakage.attacks",
    words=True,
    former=former_names.ATTACKS,
)


@accept_former_arguments(settings="options", together="batched")
def register(
    name: str,
    goal: Goal,
    *needs: type,
    remedy: str,
    auto: int | None = None,
    affordable: Callable[[AttackRequest], bool] = lambda request: True,
    options: Sequence[Option] = (),
    batched: bool = False,
    access: Access = access_by_protocol,
    classes: Sequence[AttackClass] = (),
    most_calls: Callable[[AttackRequest], Calls] = texts_in_budget,
) -> Callable[[AnyRun], AnyRun]:
    """Register a function as an attack.

    The function takes an :class:`AttackRequest` and returns an :class:`AttackResult`, the fields of a finding that it
    determined. Many calls may run at once on views of one model, so the function keeps no state between calls. A
    ``batched`` function takes all of a run's requests for it at once, whose targets are views of one model, and yields
    one result per request, in their order. An error that concerns one canary names it
    (:func:`~leakage_tasks.attacks.redact.NamingCanary`).

    Args:
        name: Name of the attack.
        goal: ``exposure`` or ``extraction``.
        needs: Target protocols; the target must implement at least one of them.
        remedy: End of the error message if the target implements no protocol in ``needs``.
        auto: Preference: the attack name ``auto`` means the attack of lowest ``auto`` that the target can serve and
            that is ``affordable``. ``auto`` never chooses an attack without a value or one of another package.
        affordable: Whether the request's budget is enough for the attack.
        options: Declarations of options, whose values are in ``AttackRequest.values``.
        batched: Whether the function takes all requests at once.
        access: Returns the description of the access to the model.
        classes: The classes of the attack, if they differ from the classes of its task's scoring.
        most_calls: Returns the most calls of the model that the attack makes for a canary, for the worst case of
            ``leakage plan``; by default ``budget`` whole texts.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        PluginError: The name is taken or not allowed, the goal is unknown, an option is declared twice or has the name
            of a task's option, or the function does not take one argument.
    """

    def add(run: AnyRun) -> AnyRun:
        _check_name(name)
        _check_goal(name, goal)
        _check_options(name, options)
        check_callable(f"attack {name!r}", run, ["request"])
        run_all: RunTogether = run if batched else partial(map, run)
        declared = tuple(options), batched, access, tuple(classes), most_calls
        attack = Attack(name, goal, needs, run_all, remedy, auto, affordable, *declared)
        ATTACKS.register(name, attack, run)
        return run

    return add


def _check_name(name: str) -> None:
    if name == AUTO:
        raise PluginError(f"attack {AUTO!r}: attack={AUTO} chooses among all attacks: give this one another name")


def _check_goal(name: str, goal: str) -> None:
    goals = get_args(Goal)
    if goal not in goals:
        raise PluginError(f"attack {name!r}: goal {goal!r} is unknown: use {' or '.join(goals)}{near(goal, goals)}")


def _check_options(attack: str, options: Sequence[Option]) -> None:
    names = [option.name for option in options]
    for name in names:
        if name in TASK_OPTIONS:
            raise PluginError(f"attack {attack!r}: option {name!r} is the task's own: give the option another name")
        if not WORD.fullmatch(name):
            raise PluginError(f"attack {attack!r}: option {name!r}: use letters, digits, '-' and '_' in its name")
        if names.count(name) > 1:
            raise PluginError(f"attack {attack!r}: option {name!r} is declared twice: remove one")


def choose(name: str, goal: Goal, request: AttackRequest) -> Attack:
    """Return the attack with this name.

    ``auto`` is the first attack for ``goal`` that the target can serve and the budget affords. Raises OptionError for
    an unknown name, and TargetError if the target does not meet the attack's needs.
    """
    target = request.target
    if name == AUTO:
        able = None
        for attack in _automatic():
            if attack.goal == goal and _serves(target, attack):
                if attack.affordable(request):
                    return attack
                able = able or attack
        if able is None:
            raise TargetError(f"{type(target).__name__} supports no attack for {goal}: try another model")
        _raise_over_budget(able, request)
    attack = attack_named(name)
    if not _serves(target, attack):
        wanted = " or ".join(_ability(need) for need in attack.needs)
        raise TargetError(f"attack={name} needs a model that {wanted}, which this model cannot do: {attack.remedy}")
    return attack


def attack_named(name: str) -> Attack:
    """Return the attack with this name, which is not ``auto``. Raises OptionError for an unknown name."""
    if name not in ATTACKS:
        names = [AUTO, *sorted(ATTACKS.names())]
        raise OptionError(f"attack={name!r} is unknown: use {', '.join(names)}{near(name, names)}")
    return ATTACKS[name]


def _automatic() -> list[Attack]:
    """Return the attacks that ``auto`` may choose, in order of preference."""
    ranked = [
        (attack.auto, attack.name, attack) for attack in ATTACKS.without_plugins().values() if attack.auto is not None
    ]
    return [attack for _, _, attack in sorted(ranked, key=lambda entry: entry[:2])]


def _raise_over_budget(attack: Attack, request: AttackRequest) -> Never:
    """Raise TargetError because the only attack that the model supports exceeds the budget."""
    canary = request.canary
    raise TargetError(
        f"canary {canary.id!r} has {canary.attack_space.size} fillings, more than budget={request.budget}, and "
        f"attack={attack.name}, the only attack this model supports, must score all of them: use a smaller space, "
        f"raise budget=…, or leave canary_{attack.goal} out"
    )


def _ability(protocol: type) -> str:
    """Return the first line of a protocol's docstring, which describes its models' ability."""
    first = (protocol.__doc__ or protocol.__name__).strip().splitlines()[0].rstrip(".")
    words = first.removeprefix("A model that ")
    return words[0].lower() + words[1:]


def option_of(option_name: str, attack: str = AUTO) -> Option | None:
    """Return the option with a plain name or ``owner.option``, if the user chose ``attack``.

    None for a plain name that no attack has. Raises OptionError for an unknown owner, for an option that its owner does
    not have, and for a plain name with different meanings in several attacks.
    """
    owner, dot, name = option_name.rpartition(".")
    if dot:
        if owner not in ATTACKS:
            raise OptionError(f"{option_name}=…: no attack is called {owner!r}{near(owner, ATTACKS.names())}")
        return _owned(ATTACKS[owner], name, option_name)
    if attack in ATTACKS and option_name in ATTACKS[attack].options_by_name:
        return ATTACKS[attack].options_by_name[option_name]
    owners = [attack for attack in ATTACKS.without_plugins().values() if option_name in attack.options_by_name]
    meanings = {attack.options_by_name[option_name]: attack.name for attack in owners}
    if len(meanings) > 1:
        ways = " or ".join(f"{meaning}.{option_name}=…" for meaning in sorted(meanings.values()))
        raise OptionError(f"{option_name}=… has different meanings in several attacks: name the attack, {ways}")
    return next(iter(meanings), None)


def option_names() -> set[str]:
    """Return the plain names of the options of this package's attacks."""
    return {name for attack in ATTACKS.without_plugins().values() for name in attack.options_by_name}


def _owned(attack: Attack, name: str, option_name: str) -> Option:
    options = attack.options_by_name
    if name not in options:
        have = f"it has {', '.join(options)}" if options else "it has no options"
        raise OptionError(f"{option_name}=…: attack {attack.name} has no option {name!r}: {have}{near(name, options)}")
    return options[name]


def _serves(target: Any, attack: Attack) -> bool:
    return any(serves(target, need) for need in attack.needs)
