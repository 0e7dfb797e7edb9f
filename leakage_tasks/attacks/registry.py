"""Attacks by name: what each is for, needs of a target and can be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Never, TypeVar

from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError, TargetError

Goal = Literal["exposure", "extraction"]
RunTogether = Callable[[Sequence["AttackRequest"]], Iterator[AttackResult]]
AnyRun = TypeVar("AnyRun", bound=Callable[[Any], Any])
BUDGET = 20_000


@dataclass(frozen=True)
class AttackOption:
    """An option of an attack, as ``--metadata`` takes it."""

    name: str
    """What it is called there."""
    type: type
    """What its value is read as."""
    default: Any
    """Its value unless given; None for none."""
    help: str
    """What it means, for messages and tables."""
    choices: tuple[str, ...] = ()
    """The values it may have, where they are few."""
    minimum: float | None = None
    """The least value it may have."""
    affects_results: bool = True
    """Whether figures can be others with another value; where not, two runs compare whatever theirs are."""
    maximum: float | None = None
    """The largest value it may have."""

    def checked(self, value: Any) -> Any:
        """``value``, if the option may have it. Raises OptionError for one that it may not."""
        if value is None:
            return None
        if self.choices and value not in self.choices:
            raise OptionError(f"{self.name}={value!r} is unknown: use {', '.join(self.choices)}")
        needed = None
        if isinstance(value, float) and not math.isfinite(value):
            needed = "a number"
        elif self.minimum is not None and value < self.minimum:
            needed = f"{self.minimum} or more"
        elif self.maximum is not None and value > self.maximum:
            needed = f"{self.maximum} or less"
        if needed:
            raise OptionError(f"{self.name}={value} must be {needed}: it is {self.help}")
        return value


@dataclass(frozen=True)
class AttackRequest:
    """One canary to attack: with what, how hard, and the seed of its own random stream."""

    target: Any
    canary: Canary
    budget: int
    seed: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attack:
    """A registered attack: what it is for, what it needs of a target, and how to run it.

    ``run`` yields the fields of a finding for each order, in their order; one that runs several ``together`` need not
    be done with the first before it goes on to the others.
    """

    name: str
    goal: Goal
    needs: tuple[type, ...]
    run: RunTogether
    remedy: str
    auto: int
    affordable: Callable[[AttackRequest], bool]
    settings: tuple[AttackOption, ...] = ()
    together: bool = False

    def resolve_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for each of the attack's settings. Raises OptionError for one that it cannot use."""
        return {each.name: each.checked(given.get(each.name, each.default)) for each in self.settings}


AUTO = "auto"
ATTACKS: dict[str, Attack] = {}


def register(
    name: str,
    goal: Goal,
    *needs: type,
    auto: int,
    remedy: str,
    affordable: Callable[[AttackRequest], bool] = lambda order: True,
    settings: Sequence[AttackOption] = (),
    together: bool = False,
) -> Callable[[AnyRun], AnyRun]:
    """Register a function as an attack.

    It takes an :class:`AttackRequest` and returns an :class:`AttackResult`, the fields of a finding that it found out.
    ``needs`` are target protocols of which the target must offer one; ``remedy`` ends the error where it offers none.
    The attack name ``auto`` stands for the one of lowest ``auto`` that the target can serve and that is ``affordable``.
    ``settings`` are its options, found in ``Order.settings``.

    One that attacks many canaries of one model ``together`` takes all of a run's orders for it, whose targets are views
    of one model, and yields what it found out of each, in their order. Where one canary is at fault, its errors name it
    (:func:`~leakage_tasks.attacks.redact.about`).
    """

    def add(run: AnyRun) -> AnyRun:
        each: RunTogether = run if together else partial(map, run)
        ATTACKS[name] = Attack(name, goal, needs, each, remedy, auto, affordable, tuple(settings), together)
        return run

    return add


def choose(name: str, goal: Goal, order: AttackRequest) -> Attack:
    """The attack of that name, or for ``auto`` the first for ``goal`` the target can serve and the budget affords.

    Raises OptionError for an unknown name and TargetError where the target lacks what the attack needs.
    """
    target = order.target
    if name == AUTO:
        able = [attack for attack in ATTACKS.values() if attack.goal == goal and _serves(target, attack)]
        if not able:
            raise TargetError(f"{type(target).__name__} offers nothing an attack for {goal} can use: try another model")
        able.sort(key=lambda attack: (attack.auto, attack.name))
        found = next((attack for attack in able if attack.affordable(order)), None)
        return found or _too_dear(able[0], order)
    if name not in ATTACKS:
        raise OptionError(f"attack={name!r} is unknown: use {', '.join([AUTO, *sorted(ATTACKS)])}")
    attack = ATTACKS[name]
    if not _serves(target, attack):
        wanted = " or ".join(_ability(need) for need in attack.needs)
        raise TargetError(f"attack={name} needs a model that {wanted}, which this one cannot: {attack.remedy}")
    return attack


def _too_dear(attack: Attack, order: AttackRequest) -> Never:
    """Raise TargetError where the one attack that a model can serve is more than the budget allows."""
    canary = order.canary
    raise TargetError(
        f"canary {canary.id!r} has {canary.attack_space.size} fillings, more than budget={order.budget}, and all that "
        f"can be done with this model is attack={attack.name}, which scores every one: use a smaller space, raise "
        f"budget=…, or leave canary_{attack.goal} out"
    )


def _ability(protocol: type) -> str:
    """What a protocol's models can do, in the words of its docstring."""
    first = (protocol.__doc__ or protocol.__name__).strip().splitlines()[0].rstrip(".")
    return first[0].lower() + first[1:]


def settings_of(name: str) -> Iterable[AttackOption]:
    """The settings of an attack; those of all for ``auto`` and for a name that is unknown."""
    return ATTACKS[name].settings if name in ATTACKS else known_settings().values()


def known_settings() -> dict[str, AttackOption]:
    """The settings of all attacks by name; those of one name are the same for all that have it."""
    return {each.name: each for attack in ATTACKS.values() for each in attack.settings}


def _serves(target: Any, attack: Attack) -> bool:
    return any(isinstance(target, need) for need in attack.needs)
