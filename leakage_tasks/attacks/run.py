"""Running an attack on a list of canaries."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from leakage_tasks.attacks.finding import AttackResult, Finding
from leakage_tasks.attacks.redact import about, hiding
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
from leakage_tasks.core.former_names import current_attack, current_option
from leakage_tasks.core.option import near
from leakage_tasks.targets.noise import NO_NOISE, recorded_noise
from leakage_tasks.targets.protocols import ReadsSource, ReadsTags, ScoresLabels, TakesContext
from leakage_tasks.targets.scheduler import NextAttack, OnRows, in_order, run_concurrently

MOST_BITS = 400
AUTO_CONTEXT = Context()


class SharedCanaries(Protocol):
    """What one of several processes attacks of a list of canaries, by their places."""

    def part(self, places: Sequence[int]) -> Sequence[int]:
        """Its part of those that one attack takes all at once."""

    def next_attack(self, under_way: int) -> int | None:
        """The one to be begun next: see :data:`~leakage_tasks.targets.scheduler.NextAttack`."""


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
    settings: Mapping[str, Any] | None = None,
) -> list[Finding]:
    """Attack each canary and report what was found, in the order of ``canaries``.

    ``name`` is a registered attack, or ``auto`` for the best one for ``goal`` that the target can serve.
    ``budget`` is the most sequences an attack may score for one canary (default 20,000, or a target's own ``budget``
    for a canary of no more fillings); what an attack needs to see before it can choose its way comes on top, as does
    all of a classifier's first unknown token, and what is scored to measure an attack by (``audit_calls``). Each canary
    has a random stream of its own, from ``seed`` and its id: order and company change nothing. ``values`` are those of
    attacks' options, by the options' names (``settings`` is its old name); with ``auto`` each attack takes those that
    are its own. One that the attack has not is an error, unless it is ``for_others`` too, such as another task of the
    run. A target that ``ReadsSource`` is asked after each canary's own source sentence, one that ``ReadsTags`` about
    each canary's own tags. ``context`` stands around the text of each; a target must be one that ``TakesContext`` for
    any other than the usual one. ``done`` is called with each finding and its canary's place as soon as it is complete;
    of canaries that a ``batched`` attack takes, the seconds may still change. ``on_rows`` is called with a canary's
    place and the rows that were read for it. Of canaries that several processes ``share`` those are attacked that this
    one takes.
    """
    values = values if settings is None else settings
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
    """What :func:`run_attack` would run for each canary, without running it. Raises as that does."""
    if budget is not None and budget < 1:
        raise OptionError(f"budget={budget} must be 1 or more: it is how many sequences may be scored for a canary")
    name = current_attack(name)
    given = {current_option(each): value for each, value in (values or {}).items()}
    own_alone = {each: value for each, value in given.items() if each not in for_others}
    _check_values(name, own_alone)
    pairs, noise = [], recorded_noise(target)
    for own, canary in zip([_given(target, canary, context) for canary in canaries], canaries, strict=True):
        request = AttackRequest(own, canary, budget or _budget(own, canary), f"{seed}:{canary.id}", noise=noise)
        pairs.append((choose(name, goal, request), request))
    for attack, _ in pairs:
        _check_goal(attack, own_alone, f"attack={AUTO} chose" if name == AUTO else "the attack is", target)
    settled = {attack.name: attack.resolve_options(given) for attack, _ in pairs}
    pairs = [(attack, dataclasses.replace(request, values=settled[attack.name])) for attack, request in pairs]
    for _, request in pairs:
        _check(request.target, request.canary, context)
    return pairs


def _check_values(name: str, values: Mapping[str, Any]) -> None:
    """Raise OptionError for a setting no attack has, or that the attack asked for by name has not."""
    own = ATTACKS[name].options_by_name if name in ATTACKS else option_names()
    for value in values:
        if option_of(value, name) is None or ("." not in value and value not in own):
            have = f"it has {', '.join(own)}{near(value, own)}" if own else "it has none"
            raise OptionError(f"attack={name} has no option {value!r}: {have}")


def _check_goal(chosen: Attack, values: Mapping[str, Any], how: str, target: Any) -> None:
    """Raise OptionError for a setting of another attack for the same goal, which would be left unused.

    One that an attack for another goal has as well is meant for that, if the other attack cannot be run on ``target``.
    """
    own = ATTACKS.own().values()
    elsewhere = {name for attack in own if attack.goal != chosen.goal for name in attack.options_by_name}
    for attack in own:
        if attack.goal != chosen.goal or attack.name == chosen.name:
            continue
        usable = isinstance(target, attack.needs)
        for name in attack.options_by_name:
            for each in ({name} - {*chosen.options_by_name} | {f"{attack.name}.{name}"}) & values.keys():
                if usable or each not in elsewhere:
                    raise OptionError(
                        f"{how} {chosen.name}, which has no option {each!r}: name attack={attack.name}, "
                        "or leave the option out"
                    )


def _findings(
    pairs: Sequence[tuple[Attack, AttackRequest]],
    progress: Callable[[Any], Iterable[Any]],
    done: Callable[[int, Finding], None] | None,
    on_rows: OnRows | None,
    share: SharedCanaries | None,
) -> list[Finding]:
    """What each attack finds out about its canary, in the order of ``pairs``; ``done`` is told of each at once.

    Attacks advance together (:func:`~leakage_tasks.targets.scheduler.run_concurrently`). One that
    takes all of its requests at once runs them in its own way; its time is shared equally.
    """
    findings: dict[int, Finding] = {}
    own = [number for number, (attack, _) in enumerate(pairs) if attack.batched]
    others = [number for number, (attack, _) in enumerate(pairs) if not attack.batched]

    def found() -> Generator[tuple[int, AttackResult, float], None, None]:
        yield from _in_its_own_way([(number, *pairs[number]) for number in (share.part(own) if share else own)])
        attacks = [partial(_attacked, *pair) for pair in pairs]
        next_attack = in_order(others) if share is None else _without(own, share.next_attack)
        with contextlib.closing(run_concurrently(attacks, next_attack, on_rows)) as answers:
            for answer in answers:
                yield answer.number, answer.result, answer.seconds

    with contextlib.closing(found()) as all_found:
        for _, (number, result, seconds) in zip(progress(pairs), all_found, strict=False):
            attack, request = pairs[number]
            findings[number] = _finding(attack, request, result, seconds)
            if done is not None:
                done(number, findings[number])
    return _with_shares([findings[number] for number in sorted(findings)])


def _without(left_out: Collection[int], next_attack: NextAttack) -> NextAttack:
    def taken(under_way: int) -> int | None:
        number = next_attack(under_way)
        while number is not None and number in left_out:
            number = next_attack(under_way)
        return number

    return taken


def _with_shares(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of attacks that run in their own way with the seconds that each canary took on average."""
    spent: dict[str, list[float]] = {}
    for each in findings:
        spent.setdefault(each.attack, []).append(each.seconds or 0.0)
    shares = {name: sum(seconds) / len(seconds) for name, seconds in spent.items() if ATTACKS[name].batched}
    return [dataclasses.replace(finding, seconds=shares.get(finding.attack, finding.seconds)) for finding in findings]


def _attacked(attack: Attack, request: AttackRequest) -> AttackResult:
    with about(request.canary):
        return next(attack.run([request]))


def _in_its_own_way(
    numbered: Sequence[tuple[int, Attack, AttackRequest]],
) -> Iterator[tuple[int, AttackResult, float]]:
    """What attacks find that take all of a run's requests at once, as it comes, and the seconds since the last."""
    names = {attack.name: attack for _, attack, _ in numbered}
    for name, attack in names.items():
        group = [(number, request) for number, each, request in numbered if each.name == name]
        results = attack.run([request for _, request in group])
        for number, _ in group:
            started = time.perf_counter()
            with hiding([request.canary for _, request in group]):
                result = next(results)
            yield number, result, time.perf_counter() - started


def _finding(attack: Attack, request: AttackRequest, found: AttackResult, seconds: float) -> Finding:
    return Finding(
        canary=request.canary.id,
        attack=attack.name,
        planted=request.canary.planted,
        repetitions=request.canary.repetitions,
        kind=request.canary.kind,
        family=request.canary.family or "",
        log2_size=math.log2(request.canary.space.size),
        seconds=seconds,
        access=attack.access(attack.needs, request.target, request.values),
        noise_bits=_noise(request),
        **found,
    )


def _noise(request: AttackRequest) -> float | None:
    """Return the rounding noise in bits of the canary's cost, None where the precision leaves none to state."""
    if request.noise == NO_NOISE:
        return None
    with about(request.canary):
        return request.noise.of(request.tokens)


def _given(target: Any, canary: Canary, context: Context) -> Any:
    """What is attacked for one canary: a model that reads a source sentence has read it, a tagger has its tags.

    Raises TargetError for a canary without one on such a model, and for one with a source on any other: what its text
    costs by itself is another figure than what the translation costs. So it does for a ``context`` on a model that
    takes none.
    """
    if not (context.is_auto or isinstance(target, TakesContext)):
        raise TargetError(
            f"context={context} does not apply to this model: it is for causal language models, which read a canary "
            "after it: leave it out"
        )
    if not isinstance(target, ReadsSource):
        if canary.source is not None:
            raise TargetError(
                f"canary {canary.id!r} has a source sentence, which this model does not read: use a translation model "
                "(--model hf --model_args pretrained=…,backend=seq2seq), or canaries without --source"
            )
        with about(canary):
            if not context.is_auto:
                return target.in_context(context, canary.attack_space)
            return target.tagged(canary) if isinstance(target, ReadsTags) else target
    if canary.source is None:
        raise TargetError(
            f"canary {canary.id!r} has no source sentence, which this model must read first: make canaries with "
            "'leakage canaries --source …' and plant them with --source-column"
        )
    with about(canary):
        return target.given(canary)


def _budget(target: Any, canary: Canary) -> int:
    """How many sequences may be scored where the user does not say: all fillings if the target's own budget pays."""
    own = getattr(target, "budget", BUDGET)
    return own if canary.attack_space.size <= own else BUDGET


def _check(target: Any, canary: Canary, context: Context) -> None:
    with about(canary):
        if isinstance(target, ScoresLabels):
            target.place_of(canary.label)
        length, room = target.length(canary.attack_space.fill(canary.secret)), target.max_length
    if canary.attack_space.size.bit_length() > MOST_BITS:
        raise TargetError(
            f"canary {canary.id!r} has more than 2^{MOST_BITS} fillings, beyond what probabilities can be computed "
            "with: use fewer slots"
        )
    if length is not None and room is not None and length > room:
        around, remedy = "", "shorten its template, or give the attacker less of it with 'known'"
        if context.before or context.after:
            around, remedy = " with its context", "shorten context=…, or the canary's template"
        raise TargetError(f"canary {canary.id!r} is {length} tokens long{around}, the model reads {room}: {remedy}")
