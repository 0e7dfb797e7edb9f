"""Attacks by name, and running one on a list of canaries."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from leakage_tasks.attacks.access import access
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.private import without_its_words, without_secret
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.errors import OptionError, TargetError
from leakage_tasks.targets.protocols import ReadsSource, ScoresLabels

Goal = Literal["exposure", "extraction"]
Run = Callable[["Order"], dict[str, Any]]
BUDGET = 20_000
MOST_BITS = 400


@dataclass(frozen=True)
class Setting:
    """An option of an attack: its name for ``--metadata``, its type, what it is unless given, and what it means.

    One that does not ``decide`` anything leaves all figures what they are without it.
    """

    name: str
    kind: type
    default: Any
    words: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    decides: bool = True


@dataclass(frozen=True)
class Order:
    """One canary to attack: with what, how hard, and the seed of its own random stream."""

    target: Any
    canary: Canary
    budget: int
    seed: str
    settings: Mapping[str, Any] = field(default_factory=dict)


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
    settings: tuple[Setting, ...] = ()

    def settle(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A value for each of the attack's settings. Raises OptionError for one that it cannot use."""
        return {each.name: _settled(each, given.get(each.name, each.default)) for each in self.settings}


AUTO = "auto"
ATTACKS: dict[str, Attack] = {}


def register(
    name: str,
    goal: Goal,
    *needs: type,
    auto: int,
    remedy: str,
    affordable: Callable[[Order], bool] = lambda order: True,
    settings: Sequence[Setting] = (),
) -> Callable[[Run], Run]:
    """Register a function as an attack.

    It takes an :class:`Order` and returns the fields of a :class:`Finding` it found out. ``needs`` are target
    protocols of which the target must offer one; ``remedy`` ends the error where it offers none. The attack name
    ``auto`` stands for the one of lowest ``auto`` that the target can serve and that is ``affordable``. ``settings``
    are its options, found in ``Order.settings``.
    """

    def add(run: Run) -> Run:
        ATTACKS[name] = Attack(name, goal, needs, run, remedy, auto, affordable, tuple(settings))
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
        wanted = " or ".join(_ability(need) for need in attack.needs)
        raise TargetError(f"attack={name} needs a model that {wanted}, which this one cannot: {attack.remedy}")
    return attack


def _ability(protocol: type) -> str:
    """What a protocol's models can do, in the words of its docstring."""
    first = (protocol.__doc__ or protocol.__name__).strip().splitlines()[0].rstrip(".")
    return first[0].lower() + first[1:]


def settings_of(name: str) -> Iterable[Setting]:
    """The settings of an attack; those of all for ``auto`` and for a name that is unknown."""
    return ATTACKS[name].settings if name in ATTACKS else known_settings().values()


def known_settings() -> dict[str, Setting]:
    """The settings of all attacks by name; those of one name are the same for all that have it."""
    return {each.name: each for attack in ATTACKS.values() for each in attack.settings}


def _settled(setting: Setting, value: Any) -> Any:
    if value is None:
        return None
    if setting.choices and value not in setting.choices:
        raise OptionError(f"{setting.name}={value!r} is unknown: use {', '.join(setting.choices)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise OptionError(f"{setting.name}={value} must be a number: it is {setting.words}")
    if setting.least is not None and value < setting.least:
        raise OptionError(f"{setting.name}={value} must be {setting.least} or more: it is {setting.words}")
    return value


def _check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raise OptionError for a setting no attack has, or that the attack asked for by name has not."""
    everyones = known_settings()
    own = everyones if name == AUTO or name not in ATTACKS else [each.name for each in ATTACKS[name].settings]
    for each in settings:
        if each not in own:
            have = f"it has {', '.join(own)}" if own else "it has none"
            raise OptionError(f"attack={name} has no option {each!r}: {have}")


def _check_goal(chosen: Attack, settings: Mapping[str, Any]) -> None:
    """Raise OptionError for a setting of another attack for the same goal, which would be left unused."""
    own = {each.name for each in chosen.settings}
    for attack in ATTACKS.values():
        for each in attack.settings:
            if attack.goal == chosen.goal and each.name in settings and each.name not in own:
                raise OptionError(
                    f"attack={AUTO} chose {chosen.name}, which has no option {each.name!r}: name attack={attack.name}, "
                    "or leave the option out"
                )


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
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[Any], Iterable[Any]] = iter,
) -> list[Finding]:
    """Attack each canary and report what was found, in the order of ``canaries``.

    ``name`` is a registered attack, or ``auto`` for the best one for ``goal`` that the target can serve.
    ``budget`` is the most sequences an attack may score for one canary (default 20,000); what an attack needs to
    see before it can choose its way comes on top, as does all of a classifier's first unknown token, and what is
    scored to measure an attack by (``audit_calls``). Each canary has a
    random stream of its own, from ``seed`` and its id: order and company change nothing. ``settings`` are options of
    attacks by name; with ``auto`` each attack takes those that are its own. A target that ``ReadsSource`` is asked
    after each canary's own source sentence.
    """
    if budget is not None and budget < 1:
        raise OptionError(f"budget={budget} must be 1 or more: it is how many sequences may be scored for a canary")
    given = settings or {}
    _check_settings(name, given)
    orders = [Order(_given(target, canary), canary, budget or BUDGET, f"{seed}:{canary.id}") for canary in canaries]
    chosen = [choose(name, goal, order) for order in orders]
    for attack in chosen:
        _check_goal(attack, given)
    settled = {attack.name: attack.settle(given) for attack in chosen}
    orders = [
        dataclasses.replace(order, settings=settled[attack.name]) for order, attack in zip(orders, chosen, strict=True)
    ]
    for order in orders:
        _check(order.target, order.canary)
    return list(_findings(progress(list(zip(chosen, orders, strict=True)))))


def _findings(pairs: Iterable[tuple[Attack, Order]]) -> Iterator[Finding]:
    for attack, order in pairs:
        canary, started = order.canary, time.perf_counter()
        try:
            found = attack.run(order)
        except TargetError as error:
            raise TargetError(f"canary {canary.id!r}: {without_secret(str(error), canary)}") from None
        except Exception as error:
            if canary.kind != "natural":
                raise
            raise without_its_words(error, canary) from None
        finding = Finding(
            canary=canary.id,
            attack=attack.name,
            planted=canary.planted,
            repetitions=canary.repetitions,
            kind=canary.kind,
            log2_size=math.log2(canary.space.size),
            seconds=time.perf_counter() - started,
            access=access(attack.needs, order.target, order.settings),
        )
        yield dataclasses.replace(finding, **found)


def _given(target: Any, canary: Canary) -> Any:
    """What is attacked for one canary: a model that reads a source sentence has read it.

    Raises TargetError for a canary without one on such a model, and for one with a source on any other: what its text
    costs by itself is another figure than what the translation costs.
    """
    if not isinstance(target, ReadsSource):
        if canary.source is not None:
            raise TargetError(
                f"canary {canary.id!r} has a source sentence, which this model does not read: use a translation model "
                "(--model hf --model_args pretrained=…,backend=seq2seq), or canaries without --source"
            )
        return target
    if canary.source is None:
        raise TargetError(
            f"canary {canary.id!r} has no source sentence, which this model must read first: make canaries with "
            "'leakage canaries --source …' and plant them with --source-column"
        )
    try:
        return target.given(canary)
    except TargetError as error:
        raise TargetError(f"canary {canary.id!r}: {without_secret(str(error), canary)}") from None


def _check(target: Any, canary: Canary) -> None:
    if isinstance(target, ScoresLabels):
        try:
            target.place_of(canary.label)
        except TargetError as error:
            raise TargetError(f"canary {canary.id!r}: {error}") from None
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
