"""Running an attack on a list of canaries."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from leakage_tasks.attacks.access import access
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.private import without_its_words, without_secret
from leakage_tasks.attacks.registry import ATTACKS, AUTO, BUDGET, Attack, Goal, Order, choose, known_settings
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.errors import OptionError, TargetError
from leakage_tasks.targets.protocols import ReadsSource, ScoresLabels

MOST_BITS = 400


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


def _findings(pairs: Iterable[tuple[Attack, Order]]) -> Iterator[Finding]:
    for attack, order in pairs:
        canary, started = order.canary, time.perf_counter()
        with _about(canary):
            found = attack.run(order)
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


@contextmanager
def _about(canary: Canary) -> Iterator[None]:
    """Name the canary where the target cannot serve it; no error of any kind shows what a natural one holds."""
    try:
        yield
    except TargetError as error:
        raise TargetError(f"canary {canary.id!r}: {without_secret(str(error), canary)}") from None
    except Exception as error:
        if canary.kind != "natural":
            raise
        raise without_its_words(error, canary) from None


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
    with _about(canary):
        return target.given(canary)


def _check(target: Any, canary: Canary) -> None:
    with _about(canary):
        if isinstance(target, ScoresLabels):
            target.place_of(canary.label)
        length, room = target.length(canary.attack_space.fill(canary.secret)), target.max_length
    if canary.attack_space.size.bit_length() > MOST_BITS:
        raise TargetError(
            f"canary {canary.id!r} has more than 2^{MOST_BITS} fillings, beyond what probabilities can be computed "
            "with: use fewer slots"
        )
    if length is not None and room is not None and length > room:
        raise TargetError(
            f"canary {canary.id!r} is {length} tokens long, the model reads {room}: shorten its template, "
            "or give the attacker less of it with 'known'"
        )
