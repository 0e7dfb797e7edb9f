"""Execution of an attack on a list of canaries."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from leakage_tasks.attacks.finding import AttackResult, Finding
from leakage_tasks.attacks.redact import HidingSecrets, NamingCanary
from leakage_tasks.attacks.registry import Attack, AttackRequest, Goal
from leakage_tasks.attacks.selection import AUTO_CONTEXT, AttackSettings, chosen_attacks
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.former_names import accept_former_arguments
from leakage_tasks.core.registry import PluginError
from leakage_tasks.targets.memory import warning_of_rereading
from leakage_tasks.targets.noise import NO_NOISE
from leakage_tasks.targets.scheduler import NextAttack, OnRows, in_order, run_concurrently


class SharedCanaries(Protocol):
    """One process's share of a list of canaries that several processes attack; canaries are identified by index."""

    def part(self, places: Sequence[int]) -> Sequence[int]:
        """Return this process's part of the canaries that a batched attack takes."""

    def next_attack(self, under_way: int) -> int | None:
        """Return the canary to start next: see :data:`~leakage_tasks.targets.scheduler.NextAttack`."""


def _unchanged(finding: Finding) -> Finding:
    return finding


@dataclass(frozen=True)
class Hooks:
    """Functions that a run of attacks calls, and this process's share of the canaries; each is optional."""

    publish: Callable[[Finding], Finding] = _unchanged
    """Returns a finding as it leaves the run: called once per finding, before ``done`` and the caller get it."""
    done: Callable[[int, Finding], None] | None = None
    """Called with a canary's index and its finding as soon as that is complete. For a ``batched`` attack the seconds
    may still change afterwards."""
    on_rows: OnRows | None = None
    """Called with a canary's index and the rows that were read for it."""
    share: SharedCanaries | None = None
    """If several processes share the canaries, decides which of them this process attacks."""


NO_HOOKS = Hooks()


@accept_former_arguments(settings="values")
def run_attack(
    name: str,
    target: Any,
    canaries: Sequence[Canary],
    *,
    budget: int | None = None,
    seed: int = 0,
    goal: Goal = "exposure",
    values: Mapping[str, Any] | None = None,
    context: Context = AUTO_CONTEXT,
    hooks: Hooks = NO_HOOKS,
) -> list[Finding]:
    """Attack each canary and return the findings, in the order of ``canaries``.

    Each canary has its own random stream, from ``seed`` and its id, so that neither the order of the canaries nor the
    other canaries change its finding. A target that ``ReadsSource`` reads each canary's own source sentence, and one
    that ``ReadsTags`` each canary's own tags.

    Args:
        name: A registered attack, or ``auto``.
        target: The model.
        canaries: The canaries.
        budget: The most sequences that an attack may score for one canary, as in :class:`AttackSettings`.
        seed: Seed of all random choices.
        goal: The goal of ``auto``.
        values: Values of the attacks' options, by option name.
        context: Text around each canary.
        hooks: Functions to call during the run.

    Returns:
        One finding per canary that this process attacked.

    Raises:
        OptionError: An option or value is not valid for the attack.
        TargetError: The target cannot serve the attack or a canary.
    """
    settings = AttackSettings(name, goal, budget, seed, values or {}, context)
    return run_chosen(chosen_attacks(settings, target, canaries), hooks)


def run_chosen(pairs: Sequence[tuple[Attack, AttackRequest]], hooks: Hooks = NO_HOOKS) -> list[Finding]:
    """Run the attacks of :func:`chosen_attacks` and return their findings, in the order of ``pairs``.

    Attacks run concurrently (:func:`~leakage_tasks.targets.scheduler.run_concurrently`). A batched attack takes all
    of its requests in one call; its time is divided equally among its canaries.
    """
    findings: dict[int, Finding] = {}
    seconds: dict[int, float] = {}
    share = hooks.share
    batched = [number for number, (attack, _) in enumerate(pairs) if attack.batched]
    concurrent = [number for number, (attack, _) in enumerate(pairs) if not attack.batched]

    def results() -> Generator[tuple[int, AttackResult, float], None, None]:
        yield from _run_batched([(number, *pairs[number]) for number in (share.part(batched) if share else batched)])
        attacks = [partial(_run_one, *pair) for pair in pairs]
        next_attack = in_order(concurrent) if share is None else _without(batched, share.next_attack)
        with contextlib.closing(run_concurrently(attacks, next_attack, hooks.on_rows)) as answers:
            for answer in answers:
                yield answer.number, answer.result, answer.seconds

    with contextlib.closing(results()) as all_results, warning_of_rereading([request.target for _, request in pairs]):
        for number, result, seconds[number] in all_results:
            findings[number] = hooks.publish(_finding(*pairs[number], result, seconds[number]))
            if hooks.done is not None:
                hooks.done(number, findings[number])
    for numbers in _batches(pairs, findings):
        mean = sum(seconds[number] for number in numbers) / len(numbers)
        findings |= {number: _with_seconds(findings[number], mean) for number in numbers}
    return [findings[number] for number in sorted(findings)]


def _without(left_out: Collection[int], next_attack: NextAttack) -> NextAttack:
    def taken(under_way: int) -> int | None:
        number = next_attack(under_way)
        while number is not None and number in left_out:
            number = next_attack(under_way)
        return number

    return taken


def _batches(pairs: Sequence[tuple[Attack, AttackRequest]], numbers: Iterable[int]) -> Iterable[list[int]]:
    """Return the numbers of the canaries of each batched attack."""
    by_attack: dict[str, list[int]] = {}
    for number in numbers:
        if pairs[number][0].batched:
            by_attack.setdefault(pairs[number][0].name, []).append(number)
    return by_attack.values()


def _with_seconds(finding: Finding, seconds: float) -> Finding:
    """Return the finding with the seconds, unless it was published without its seconds."""
    return finding if finding.seconds is None else dataclasses.replace(finding, seconds=seconds)


def _run_one(attack: Attack, request: AttackRequest) -> AttackResult:
    with NamingCanary(request.canary):
        return _checked(attack, next(attack.run([request])))


def _run_batched(
    numbered: Sequence[tuple[int, Attack, AttackRequest]],
) -> Iterator[tuple[int, AttackResult, float]]:
    """Run batched attacks; yield each result as soon as it is complete, with the seconds since the previous one."""
    names = {attack.name: attack for _, attack, _ in numbered}
    for name, attack in names.items():
        group = [(number, request) for number, other, request in numbered if other.name == name]
        results = attack.run([request for _, request in group])
        for number, _ in group:
            started = time.perf_counter()
            with HidingSecrets([request.canary for _, request in group]):
                result = _checked(attack, next(results, None))
            yield number, result, time.perf_counter() - started


def _checked(attack: Attack, result: AttackResult | None) -> AttackResult:
    """Return the result of an attack. Raises PluginError if it has other fields than a finding, or is missing."""
    known = AttackResult.__annotations__.keys()
    if isinstance(result, Mapping) and result.keys() <= known:
        return result
    wrong = ", ".join(map(str, result.keys() - known)) if isinstance(result, Mapping) else type(result).__name__
    raise PluginError(
        f"attack {attack.name!r} returned {wrong}: return a dictionary with fields of AttackResult: {', '.join(known)}"
    )


def _finding(attack: Attack, request: AttackRequest, result: AttackResult, seconds: float) -> Finding:
    return Finding(
        canary=request.canary.id,
        attack=attack.name,
        planted=request.canary.planted,
        repetitions=request.canary.repetitions,
        kind=request.canary.kind,
        family=request.canary.family or "",
        coin=request.canary.coin,
        uniform=request.canary.uniform,
        log2_size=math.log2(request.canary.space.size),
        seconds=seconds,
        access=attack.access(attack.needs, request.target, request.values),
        noise_bits=_noise(request),
        **result,
    )


def _noise(request: AttackRequest) -> float | None:
    """Return the rounding noise in bits of the canary's cost; None if the model's precision has no noise to report."""
    if request.noise == NO_NOISE:
        return None
    with NamingCanary(request.canary):
        return request.noise.of(request.tokens)
