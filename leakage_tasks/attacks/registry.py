"""Attacks by name: what each is for, needs of a target and can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Never, TypeVar, get_args

from leakage_tasks.attacks.access import access_by_protocol
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core import former_names
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.old_names import accept_old_names
from leakage_tasks.core.option import Option, by_name, near, resolved
from leakage_tasks.core.registry import WORD, PluginError, Registry, check_callable
from leakage_tasks.targets.noise import NO_NOISE, Noise

Goal = Literal["exposure", "extraction"]
RunTogether = Callable[[Sequence["AttackRequest"]], Iterator[AttackResult]]
AnyRun = TypeVar("AnyRun", bound=Callable[[Any], Any])
Access = Callable[[Sequence[type], Any, Mapping[str, Any]], str]
"""Of an attack's needs, the target and the values of the attack's options, what it takes of the model, in words."""
BUDGET = 20_000


@accept_old_names(settings="values")
@dataclass(frozen=True)
class AttackRequest:
    """One canary to attack: with what, how hard, and the seed of its own random stream."""

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
        """Tokens of the canary's text that have a cost, None where the model does not state it."""
        length: int | None = self.target.length(self.canary.attack_space.fill(self.canary.secret))
        return None if length is None else length + 1 - getattr(self.target, "unscored", 1)


@accept_old_names(settings="options", together="batched")
@dataclass(frozen=True)
class Attack:
    """A registered attack: what it is for, what it needs of a target, and how to run it.

    ``run`` yields the fields of a finding for each request, in their order; a ``batched`` one need not be
    done with the first before it goes on to the others.
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

    def resolve_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for each of the attack's options, ``given`` plain or as ``attack.option``.

        Raises OptionError for one that it cannot use.
        """
        named = {name: given[f"{self.name}.{name}"] for name in self.options_by_name if f"{self.name}.{name}" in given}
        return resolved(self.options, {**given, **named})

    @property
    def options_by_name(self) -> dict[str, Option]:
        """Its options by name."""
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
    settings: Sequence[Option] = (),
    together: bool = False,
) -> Callable[[AnyRun], AnyRun]:
    """Register a function as an attack.

    It takes an :class:`AttackRequest` and returns an :class:`AttackResult`, the fields of a finding that it found out.
    It may be one of many that run at once on views of one model, so it keeps no state of its own between calls.
    ``needs`` are target protocols of which the target must offer one; ``remedy`` ends the error where it offers none.
    The attack name ``auto`` stands for the one of lowest ``auto`` that the target can serve and that is ``affordable``:
    never for one without ``auto``, and never for one of another package's entry point.
    ``options`` are declarations, whose values are in ``AttackRequest.values``; ``access`` says what it takes of the
    model. ``settings`` and ``together`` are the old names of ``options`` and ``batched``.

    A ``batched`` attack takes all of a run's requests for it at once, whose targets are views of one model, and yields
    what it found out about each, in their order. If one canary is at fault, its errors name it
    (:func:`~leakage_tasks.attacks.redact.about`).

    Raises PluginError for a name that is taken or cannot be given, for an unknown goal, for an option that has the name
    of a task's own option or occurs twice, and for a function that does not take one argument.
    """

    declared, at_once = (*options, *settings), batched or together

    def add(run: AnyRun) -> AnyRun:
        _check_name(name)
        _check_goal(name, goal)
        _check_options(name, declared)
        check_callable(f"attack {name!r}", run, ["request"])
        each: RunTogether = run if at_once else partial(map, run)
        found = Attack(name, goal, needs, each, remedy, auto, affordable, declared, at_once, access)
        ATTACKS.register(name, found, run)
        return run

    return add


def _check_name(name: str) -> None:
    if name == AUTO:
        raise PluginError(f"attack {AUTO!r}: attack={AUTO} chooses among all attacks: give this one another name")


def _check_goal(name: str, goal: str) -> None:
    goals = get_args(Goal)
    if goal not in goals:
        raise PluginError(f"attack {name!r}: goal {goal!r} is unknown: use {' or '.join(goals)}{near(goal, goals)}")


def _check_options(name: str, options: Sequence[Option]) -> None:
    names = [option.name for option in options]
    for each in names:
        if each in TASK_OPTIONS:
            raise PluginError(f"attack {name!r}: option {each!r} is the task's own: give the option another name")
        if not WORD.fullmatch(each):
            raise PluginError(f"attack {name!r}: option {each!r}: use letters, digits, '-' and '_' in its name")
        if names.count(each) > 1:
            raise PluginError(f"attack {name!r}: option {each!r} is declared twice: remove one")


def choose(name: str, goal: Goal, request: AttackRequest) -> Attack:
    """The attack of that name, or for ``auto`` the first for ``goal`` the target can serve and the budget affords.

    Raises OptionError for an unknown name and TargetError where the target lacks what the attack needs.
    """
    target = request.target
    if name == AUTO:
        able = [attack for attack in _automatic() if attack.goal == goal and _serves(target, attack)]
        if not able:
            raise TargetError(f"{type(target).__name__} offers nothing an attack for {goal} can use: try another model")
        found = next((attack for attack in able if attack.affordable(request)), None)
        return found or _too_dear(able[0], request)
    attack = attack_named(name)
    if not _serves(target, attack):
        wanted = " or ".join(_ability(need) for need in attack.needs)
        raise TargetError(f"attack={name} needs a model that {wanted}, which this one cannot: {attack.remedy}")
    return attack


def attack_named(name: str) -> Attack:
    """The attack of that name, which is not ``auto``. Raises OptionError for an unknown one."""
    if name not in ATTACKS:
        names = [AUTO, *sorted(ATTACKS.names())]
        raise OptionError(f"attack={name!r} is unknown: use {', '.join(names)}{near(name, names)}")
    return ATTACKS[name]


def _automatic() -> list[Attack]:
    """The attacks that ``auto`` may stand for, in the order in which it prefers them."""
    ranked = [(attack.auto, attack.name, attack) for attack in ATTACKS.own().values() if attack.auto is not None]
    return [attack for _, _, attack in sorted(ranked, key=lambda each: each[:2])]


def _too_dear(attack: Attack, request: AttackRequest) -> Never:
    """Raise TargetError where the one attack that a model can serve is more than the budget allows."""
    canary = request.canary
    raise TargetError(
        f"canary {canary.id!r} has {canary.attack_space.size} fillings, more than budget={request.budget}, and all "
        f"that can be done with this model is attack={attack.name}, which scores every one: use a smaller space, raise "
        f"budget=…, or leave canary_{attack.goal} out"
    )


def _ability(protocol: type) -> str:
    """What a protocol's models can do, in the words of its docstring."""
    first = (protocol.__doc__ or protocol.__name__).strip().splitlines()[0].rstrip(".")
    words = first.removeprefix("A model that ")
    return words[0].lower() + words[1:]


def option_of(given: str, attack: str = AUTO) -> Option | None:
    """The option that a name stands for, plain or as ``owner.option``, where ``attack`` is asked for.

    None for a plain name that no attack knows. Raises OptionError for an owner that there is not, for an option that
    its owner has not, and for a plain name that several attacks understand differently.
    """
    owner, dot, name = given.rpartition(".")
    if dot:
        if owner not in ATTACKS:
            raise OptionError(f"{given}=…: no attack is called {owner!r}{near(owner, ATTACKS.names())}")
        return _owned(ATTACKS[owner], name, given)
    if attack in ATTACKS and given in ATTACKS[attack].options_by_name:
        return ATTACKS[attack].options_by_name[given]
    owners = [attack for attack in ATTACKS.own().values() if given in attack.options_by_name]
    meanings = {attack.options_by_name[given]: attack.name for attack in owners}
    if len(meanings) > 1:
        ways = " or ".join(f"{meaning}.{given}=…" for meaning in sorted(meanings.values()))
        raise OptionError(f"{given}=… means something else to each of several attacks: name its owner, {ways}")
    return next(iter(meanings), None)


def option_names() -> set[str]:
    """The plain names of our attacks' options."""
    return {name for attack in ATTACKS.own().values() for name in attack.options_by_name}


def _owned(attack: Attack, name: str, given: str) -> Option:
    options = attack.options_by_name
    if name not in options:
        have = f"it has {', '.join(options)}" if options else "it has none"
        raise OptionError(f"{given}=…: attack {attack.name} has no option {name!r}: {have}{near(name, options)}")
    return options[name]


def _serves(target: Any, attack: Attack) -> bool:
    return any(isinstance(target, need) for need in attack.needs)
