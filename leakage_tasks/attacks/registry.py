"""Attacks by name, and running one on a list of canaries."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.errors import OptionError, TargetError

Goal = Literal["exposure", "extraction"]
Run = Callable[["Order"], dict[str, Any]]
BUDGET = 20_000
MOST_BITS = 400


@dataclass(frozen=True)
class Order:
    """One canary to attack: with what, how hard, and the seed of its own random stream."""

    target: Any
    canary: Canary
    budget: int
    seed: str


@dataclass(frozen=True)
class Attack:
    """A registered attack: what it is for, what it needs of a target, and how to run it on one canary."""

    name: str
    goal: Goal
    needs: tuple[type, ...]
    run: Run
    remedy: str
    auto: int
    affordable: Callable[[Order], bool]


AUTO = "auto"
ATTACKS: dict[str, Attack] = {}


def register(
    name: str,
    goal: Goal,
    *needs: type,
    auto: int,
    remedy: str,
    affordable: Callable[[Order], bool] = lambda order: True,
) -> Callable[[Run], Run]:
    """Register a function as an attack.

    It takes an :class:`Order` and returns the fields of a :class:`Finding` it found out. ``needs`` are target
    protocols of which the target must offer one; ``remedy`` ends the error where it offers none. The attack name
    ``auto`` stands for the one of lowest ``auto`` that the target can serve and that is ``affordable``.
    """

    def add(run: Run) -> Run:
        ATTACKS[name] = Attack(name, goal, needs, run, remedy, auto, affordable)
        return run

    return add


def choose(name: str, goal: Goal, order: Order) -> Attack:
    """The attack of that name, or for ``auto`` the first for ``goal`` the target can serve and the budget affords.

    Raises OptionError for an unknown name and TargetError where the target lacks what the attack needs.
    """
    target = order.target
    if name == AUTO:
        able = [attack for attack in ATTACKS.values() if attack.goal == goal and _serves(target, attack)]
        if not able:
            raise TargetError(f"{type(target).__name__} offers nothing an attack for {goal} can use: try another model")
        able.sort(key=lambda attack: attack.auto)
        return next((attack for attack in able if attack.affordable(order)), able[-1])
    if name not in ATTACKS:
        raise OptionError(f"attack={name!r} is unknown: use {', '.join([AUTO, *ATTACKS])}")
    attack = ATTACKS[name]
    if not _serves(target, attack):
        wanted = " or ".join(need.__name__ for need in attack.needs)
        raise TargetError(f"attack={name} needs a model that {wanted}, which this one is not: {attack.remedy}")
    return attack


def _serves(target: Any, attack: Attack) -> bool:
    return any(isinstance(target, need) for need in attack.needs)


def run_attack(
    name: str,
    target: Any,
    canaries: Sequence[Canary],
    *,
    budget: int | None = None,
    seed: int = 0,
    goal: Goal = "exposure",
    progress: Callable[[Any], Iterable[Any]] = iter,
) -> list[Finding]:
    """Attack each canary and report what was found, in the order of ``canaries``.

    ``name`` is a registered attack, or ``auto`` for the best one for ``goal`` that the target can serve.
    ``budget`` is the most sequences an attack may score for one canary (default 20,000); what an attack needs to
    see before it can choose its way comes on top. Each canary has a
    random stream of its own, from ``seed`` and its id: order and company change nothing.
    """
    if budget is not None and budget < 1:
        raise OptionError(f"budget={budget} must be 1 or more: it is how many sequences may be scored for a canary")
    orders = [Order(target, canary, budget or BUDGET, f"{seed}:{canary.id}") for canary in canaries]
    chosen = [choose(name, goal, order) for order in orders]
    for canary in canaries:
        _check(target, canary)
    return list(_findings(progress(list(zip(chosen, orders, strict=True)))))


def _findings(pairs: Iterable[tuple[Attack, Order]]) -> Iterator[Finding]:
    for attack, order in pairs:
        canary, started = order.canary, time.perf_counter()
        try:
            found = attack.run(order)
        except TargetError as error:
            raise TargetError(f"canary {canary.id!r}: {error}") from None
        finding = Finding(
            canary=canary.id,
            attack=attack.name,
            planted=canary.planted,
            repetitions=canary.repetitions,
            kind=canary.kind,
            log2_size=math.log2(canary.space.size),
            seconds=time.perf_counter() - started,
        )
        yield dataclasses.replace(finding, **found)


def _check(target: Any, canary: Canary) -> None:
    if canary.attack_space.size.bit_length() > MOST_BITS:
        raise TargetError(
            f"canary {canary.id!r} has more than 2^{MOST_BITS} fillings, beyond what probabilities can be computed "
            "with: use fewer slots"
        )
    length, room = target.length(canary.attack_space.fill(canary.secret)), target.max_length
    if length is not None and room is not None and length > room:
        raise TargetError(
            f"canary {canary.id!r} is {length} tokens long, the model reads {room}: shorten its template, "
            "or give the attacker less of it with 'known'"
        )
