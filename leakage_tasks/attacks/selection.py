"""Choice of the attack for each canary, from the user's settings and the target's capabilities."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leakage_tasks.attacks.redact import NamingCanary
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
from leakage_tasks.canaries.canary import Canary, source_space_of
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError, TargetError
from leakage_tasks.core.former_names import current_attack, current_option
from leakage_tasks.core.option import near
from leakage_tasks.targets.noise import recorded_noise
from leakage_tasks.targets.protocols import ReadsSource, ReadsTags, ScoresLabels, TakesContext, serves

MOST_BITS = 400
AUTO_CONTEXT = Context()


@dataclass(frozen=True)
class AttackSettings:
    """The attack to run and its settings, for all canaries of a run."""

    name: str
    """A registered attack, or ``auto`` for the best attack for ``goal`` that the target can serve."""
    goal: Goal = "exposure"
    """The goal of ``auto``: ``exposure`` or ``extraction``."""
    budget: int | None = None
    """The most sequences that an attack may score for one canary; None for 20,000, or the target's own ``budget`` if
    the canary has no more fillings than that. Not included are sequences that an attack needs before it can choose its
    method, all values of a classifier's first unknown token, and sequences that only measure the attack
    (``audit_calls``)."""
    seed: int = 0
    """Seed of all random choices."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the attacks' options, by option name. With ``auto`` each attack takes its own options."""
    context: Context = AUTO_CONTEXT
    """Text around each canary; any but the default requires a target that ``TakesContext``."""
    for_others: Collection[str] = ()
    """Options that other attacks or tasks of the run use; the attack need not have them."""


def chosen_attacks(
    settings: AttackSettings, target: Any, canaries: Sequence[Canary]
) -> list[tuple[Attack, AttackRequest]]:
    """Choose and check the attack for each canary without running it.

    Return attack and request for each canary. Errors are those of :func:`run_attack`.
    """
    budget, context = settings.budget, settings.context
    if budget is not None and budget < 1:
        raise OptionError(
            f"budget={budget} must be 1 or more: it is the largest number of sequences to score for a canary"
        )
    name = current_attack(settings.name)
    all_values = {current_option(option): value for option, value in settings.values.items()}
    own_values = {option: value for option, value in all_values.items() if option not in settings.for_others}
    _check_values(name, own_values)
    pairs, noise = [], recorded_noise(target)
    for view, canary in zip([_view_of(target, canary, context) for canary in canaries], canaries, strict=True):
        stream = f"{settings.seed}:{canary.id}"
        request = AttackRequest(view, canary, budget or _budget(view, canary), stream, noise=noise)
        pairs.append((choose(name, settings.goal, request), request))
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
    # A target of another package may not check it.
    source_space_of(canary)
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
