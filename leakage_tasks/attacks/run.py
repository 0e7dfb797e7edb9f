"""Execution of an attack on a list of canaries."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from leakage_tasks.attacks.finding import AttackResult, Finding
from leakage_tasks.attacks.redact import HidingSecrets, NamingCanary
from leakage_tasks.attacks.registry import (
    ATTACKS,
    AUTO,
    BUDGET,
    Attack,
    AttackRequest,
    Goal,
    choose,
    option_names,
    option_of,
)
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.former_names import accept_former_arguments, current_attack, current_option
from leakage_tasks.core.option import near
from leakage_tasks.targets.memory import warning_of_rereading
from leakage_tasks.targets.noise import NO_NOISE, recorded_noise
from leakage_tasks.targets.protocols import ReadsSource, ReadsTags, ScoresLabels, TakesContext, serves
from leakage_tasks.targets.scheduler import NextAttack, OnRows, in_order, run_concurrently

MOST_BITS = 400
AUTO_CONTEXT = Context()


class SharedCanaries(Protocol):
    """One process's share of a list of canaries that several processes attack; canaries are identified by index."""

    def part(self, places: Sequence[int]) -> Sequence[int]:
        """Return this process's part of the canaries that a batched attack takes."""

    def next_attack(self, under_way: int) -> int | None:
        """Return the canary to start next: see :data:`~leakage_tasks.targets.scheduler.NextAttack`."""


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
    progress: Callable[[Any], Iterable[Any]] = iter,
    context: Context = AUTO_CONTEXT,
    done: Callable[[int, Finding], None] | None = None,
    on_rows: OnRows | None = None,
    share: SharedCanaries | None = None,
    for_others: Collection[str] = (),
) -> list[Finding]:
    """Attack each canary and return the findings, in the order of ``canaries``.

    Each canary has its own random stream, from ``seed`` and its id, so that neither the order of the canaries nor the
    other canaries change its finding. A target that ``ReadsSource`` reads each canary's own source sentence, and one
    that ``ReadsTags`` each canary's own tags.

    Args:
        name: A registered attack, or ``auto`` for the best attack for ``goal`` that the target can serve.
        target: The model.
        canaries: The canaries.
        budget: The most sequences that an attack may score for one canary; by default 20,000, or the target's own
            ``budget`` if the canary has no more fillings than that. Not included are sequences that an attack needs
            before it can choose its method, all values of a classifier's first unknown token, and sequences that
            only measure the attack (``audit_calls``).
        seed: Seed of all random choices.
        goal: The goal of ``auto``: ``exposure`` or ``extraction``.
        values: Values of the attacks' options, by option name. With ``auto`` each attack takes its own options.
        progress: Wraps an iterable to show progress.
        context: Text around each canary; any but the default requires a target that ``TakesContext``.
        done: Called with a canary's index and its finding as soon as that is complete. For a ``batched`` attack the
            seconds may still change afterwards.
        on_rows: Called with a canary's index and the rows that were read for it.
        share: If several processes share the canaries, decides which of them this process attacks.
        for_others: Options that other attacks or tasks of the run use; the attack need not have them.

    Returns:
        One finding per canary that this process attacked.

    Raises:
        OptionError: An option or value is not valid for the attack.
        TargetError: The target cannot serve the attack or a canary.
    """
    chosen = chosen_attacks(name, target, canaries, budget, seed, goal, values, context, for_others)
    return _findings(chosen, progress, done, on_rows, share)


def chosen_attacks(
    name: str,
    target: Any,
    canaries: Sequence[Canary],
    budget: int | None,
    seed: int,
    goal: Goal,
    values: Mapping[str, Any] | None = None,
    context: Context = AUTO_CONTEXT,
    for_others: Collection[str] = (),
) -> list[tuple[Attack, AttackRequest]]:
    """Choose and check the attack for each canary without running it.

    Arguments and errors are those of :func:`run_attack`.

    Args:
        name: An attack, or ``auto``.
        target: The model.
        canaries: The canaries.
        budget: The most sequences that an attack may score for one canary, or None.
        seed: Seed of all random choices.
        goal: The goal of ``auto``.
        values: Values of the attacks' options, by option name.
        context: Text around each canary.
        for_others: Options that other attacks or tasks of the run use.

    Returns:
        Attack and request for each canary.
    """
    if budget is not None and budget < 1:
        raise OptionError(
            f"budget={budget} must be 1 or more: it is the largest number of sequences to score for a canary"
        )
    name = current_attack(name)
    all_values = {current_option(option): value for option, value in (values or {}).items()}
    own_values = {option: value for option, value in all_values.items() if option not in for_others}
    _check_values(name, own_values)
    pairs, noise = [], recorded_noise(target)
    for view, canary in zip([_view_of(target, canary, context) for canary in canaries], canaries, strict=True):
        request = AttackRequest(view, canary, budget or _budget(view, canary), f"{seed}:{canary.id}", noise=noise)
        pairs.append((choose(name, goal, request), request))
    attacks = {attack.name: attack for attack, _ in pairs}
    for attack in attacks.values():
        _check_goal(attack, own_values, f"attack={AUTO} chose" if name == AUTO else "the attack is", target)
    settled = {name: attack.resolve_options(all_values) for name, attack in attacks.items()}
    pairs = [(attack, dataclasses.replace(request, values=settled[attack.name])) for attack, request in pairs]
    for _, request in pairs:
        _check(request.target, request.canary, context)
    return pairs


def _check_values(name: str, values: Mapping[str, Any]) -> None:
    """Raise OptionError for an option that no attack has, or that the attack named by the user does not have."""
    own_names = ATTACKS[name].options_by_name if name in ATTACKS else option_names()
    for value in values:
        if option_of(value, name) is None or ("." not in value and value not in own_names):
            have = f"it has {', '.join(own_names)}{near(value, own_names)}" if own_names else "it has no options"
            raise OptionError(f"attack={name} has no option {value!r}: {have}")


def _check_goal(chosen: Attack, values: Mapping[str, Any], how: str, target: Any) -> None:
    """Raise OptionError for an option that only another attack for this goal has, because it would have no effect.

    If that other attack cannot run on ``target`` and an attack for another goal has the option too, it is no error.
    """
    attacks = ATTACKS.without_plugins().values()
    elsewhere = {name for attack in attacks if attack.goal != chosen.goal for name in attack.options_by_name}
    for attack in attacks:
        if attack.goal != chosen.goal or attack.name == chosen.name:
            continue
        usable = isinstance(target, attack.needs)
        for name in attack.options_by_name:
            for option in ({name} - {*chosen.options_by_name} | {f"{attack.name}.{name}"}) & values.keys():
                if usable or option not in elsewhere:
                    raise OptionError(
                        f"{how} {chosen.name}, which has no option {option!r}: name attack={attack.name}, "
                        "or leave the option out"
                    )


def _findings(
    pairs: Sequence[tuple[Attack, AttackRequest]],
    progress: Callable[[Any], Iterable[Any]],
    done: Callable[[int, Finding], None] | None,
    on_rows: OnRows | None,
    share: SharedCanaries | None,
) -> list[Finding]:
    """Run the attacks and return their findings, in the order of ``pairs``; call ``done`` with each finding at once.

    Attacks run concurrently (:func:`~leakage_tasks.targets.scheduler.run_concurrently`). A batched attack takes all
    of its requests in one call; its time is divided equally among its canaries.
    """
    findings: dict[int, Finding] = {}
    batched = [number for number, (attack, _) in enumerate(pairs) if attack.batched]
    concurrent = [number for number, (attack, _) in enumerate(pairs) if not attack.batched]

    def results() -> Generator[tuple[int, AttackResult, float], None, None]:
        yield from _run_batched([(number, *pairs[number]) for number in (share.part(batched) if share else batched)])
        attacks = [partial(_run_one, *pair) for pair in pairs]
        next_attack = in_order(concurrent) if share is None else _without(batched, share.next_attack)
        with contextlib.closing(run_concurrently(attacks, next_attack, on_rows)) as answers:
            for answer in answers:
                yield answer.number, answer.result, answer.seconds

    with contextlib.closing(results()) as all_results, warning_of_rereading([request.target for _, request in pairs]):
        for _, (number, result, seconds) in zip(progress(pairs), all_results, strict=False):
            attack, request = pairs[number]
            findings[number] = _finding(attack, request, result, seconds)
            if done is not None:
                done(number, findings[number])
    return _with_mean_seconds([findings[number] for number in sorted(findings)])


def _without(left_out: Collection[int], next_attack: NextAttack) -> NextAttack:
    def taken(under_way: int) -> int | None:
        number = next_attack(under_way)
        while number is not None and number in left_out:
            number = next_attack(under_way)
        return number

    return taken


def _with_mean_seconds(findings: Sequence[Finding]) -> list[Finding]:
    """Set the seconds of findings of batched attacks to the mean over their canaries."""
    spent: dict[str, list[float]] = {}
    for finding in findings:
        spent.setdefault(finding.attack, []).append(finding.seconds or 0.0)
    shares = {name: sum(seconds) / len(seconds) for name, seconds in spent.items() if ATTACKS[name].batched}
    return [dataclasses.replace(finding, seconds=shares.get(finding.attack, finding.seconds)) for finding in findings]


def _run_one(attack: Attack, request: AttackRequest) -> AttackResult:
    with NamingCanary(request.canary):
        return next(attack.run([request]))


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
                result = next(results)
            yield number, result, time.perf_counter() - started


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


def _view_of(target: Any, canary: Canary, context: Context) -> Any:
    """Return the view of ``target`` for one canary: with its source sentence, its tags or its context.

    Raises TargetError for a canary without a source sentence on a translation model, and for a canary with a source
    sentence on any other model, because the cost of the text alone is not the cost of the translation. Also raises
    TargetError for a ``context`` on a model that takes none.
    """
    if not (context.is_auto or serves(target, TakesContext)):
        raise TargetError(
            f"context={context} does not apply to this model: only causal language models read a canary "
            "after a context: leave it out"
        )
    if not serves(target, ReadsSource):
        if canary.source is not None:
            raise TargetError(
                f"canary {canary.id!r} has a source sentence, which this model does not read: use a translation model "
                "(--model hf --model_args pretrained=…,backend=seq2seq), or canaries without --source"
            )
        with NamingCanary(canary):
            if not context.is_auto:
                return target.in_context(context, canary.attack_space)
            return target.tagged(canary) if serves(target, ReadsTags) else target
    if canary.source is None:
        raise TargetError(
            f"canary {canary.id!r} has no source sentence, which this model must read first: make canaries with "
            "'leakage canaries --source …' and plant them with --source-column"
        )
    with NamingCanary(canary):
        return target.given(canary)


def _budget(target: Any, canary: Canary) -> int:
    """Return the default budget: the target's own budget if it is enough for all fillings, else :data:`BUDGET`."""
    budget = getattr(target, "budget", BUDGET)
    return budget if canary.attack_space.size <= budget else BUDGET


def _check(target: Any, canary: Canary, context: Context) -> None:
    with NamingCanary(canary):
        if serves(target, ScoresLabels):
            target.place_of(canary.label)
        length, room = target.length(canary.attack_space.fill(canary.secret)), target.max_length
    if canary.attack_space.size.bit_length() > MOST_BITS:
        raise TargetError(
            f"canary {canary.id!r} has more than 2^{MOST_BITS} fillings, too many for floating-point "
            "probabilities: use fewer slots"
        )
    if length is not None and room is not None and length > room:
        around, remedy = "", "shorten its template, or give the attacker less of it with 'known'"
        if context.before or context.after:
            around, remedy = " with its context", "shorten context=…, or the canary's template"
        raise TargetError(
            f"canary {canary.id!r} is {length} tokens long{around}, but the model reads at most {room} tokens: {remedy}"
        )
