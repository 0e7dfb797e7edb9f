"""Statistical power of an audit in words: sample sizes for a goal, and effects that a plan or a run can show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import GUESSES
from leakage_tasks.canaries.canary import attacked
from leakage_tasks.canaries.manifest import read_manifest
from leakage_tasks.canaries.near import near_counts
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.nouns import percent
from leakage_tasks.metrics.exposure import NOT_AT_CHANCE
from leakage_tasks.metrics.secret_sizes import chance_of_guess, largest_size
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.format import number
from leakage_tasks.report.load.run import Run, TaskResult
from leakage_tasks.stats import power
from leakage_tasks.stats.membership import ONE_IN

POWER_TEXT = f"{100 * power.POWER:.0f} % power"


@dataclass(frozen=True)
class AuditGoal:
    """The effects that an audit should show; None for an effect that is not of interest."""

    rate: float | None = None
    """An extraction rate."""
    exposure: float | None = None
    """A mean exposure in bits."""
    epsilon: float | None = None
    """A lower bound on ε."""
    accuracy: float = 0.95
    """The share of right guesses at which of two secrets was planted."""
    chance: float = 0.0
    """The rate at which random guesses extract a secret."""
    tiers: tuple[int, ...] = (1,)
    """The numbers of copies that canaries are planted with."""


@dataclass(frozen=True)
class AuditPlan:
    """The number of canaries by number of copies, the number of controls, and the number of natural secrets."""

    planted: Mapping[int, int]
    controls: int
    natural: int = 0
    reported: int | None = None
    """The number of canaries with a value of ``success_at_10``, if a run withholds the others' as well as the best
    guesses; None if extraction is known for all planted canaries."""
    log2_size: float = math.inf
    """log2 of the number of fillings of the largest space; infinity if it is unknown."""
    chance: float = 0.0
    """The rate at which random guesses extract a secret of the smallest space."""


def required_sizes(goal: AuditGoal) -> list[str]:
    """List the canaries, controls and copies needed, one line per effect. Raises OptionError if no number suffices."""
    return [*_for_rate(goal), *_for_exposure(goal), *_for_epsilon(goal)]


def detectable_effects(plan: AuditPlan) -> list[str]:
    """List the smallest effects that a plan can show, one line per tier, for natural secrets and for the controls."""
    rates = plan.reported is None
    lines = [
        _tier(plan, number, planted_words(copies), rates) for copies, number in sorted(plan.planted.items()) if number
    ]
    if len(lines) > 1 or (not lines and (plan.planted or not plan.natural)):
        lines.append(_tier(plan, sum(plan.planted.values()), "planted in all", rates))
    if plan.natural:
        # Findings never state if the best guess is a natural secret.
        lines.append(_tier(plan, plan.natural, "natural secrets", rates=False))
    if plan.reported is not None:
        rate = _rate(plan.reported, min(1.0, GUESSES * plan.chance))
        lines.append(f"{plan.reported:,} with a value of success_at_10: {rate}")
    return [*lines, _controls(plan)]


def plan_of_run(run: Run) -> AuditPlan | None:
    """Return the plan from a run's results file, or None if it states no numbers of canaries and controls."""
    for _, result in sorted(run.tasks.items()):
        copies, controls, total = (result.tested.get(name) for name in ("repetitions", "controls", "planted"))
        if isinstance(copies, Mapping) and isinstance(controls, int) and isinstance(total, int):
            # Earlier versions wrote copies of natural secrets, too.
            tiers = {} if result.tested.get("kinds") == [NATURAL] else copies
            planted = {int(times): int(count) for times, count in tiers.items()}
            return AuditPlan(
                _measured(planted, result),
                controls,
                max(0, total - sum(planted.values())),
                _reported(run),
                largest_size(result.tested),
                chance_of_guess(result.tested) or 0.0,
            )
    return None


def _measured(planted: Mapping[int, int], result: TaskResult) -> dict[int, int]:
    """Return the number of canaries with a value by number of copies, or ``planted`` if the results do not state it.

    Training may have read some canaries as context only, or not at all, so that they are in no tier.
    """
    counts = {times: result.headline.get(f"n_x{times}") for times in planted}
    # If training read none of the canaries, the results have no tier, but the result of a check of the training data.
    named = (*counts.values(), result.headline.get("n_context"), result.tested.get("learnt_from"))
    stated = any(value is not None for value in named)
    return {times: int(counts[times] or 0) if stated else number for times, number in planted.items()}


def _reported(run: Run) -> int | None:
    """Return the number of canaries with a value of ``success_at_10`` in a run that withholds the best guesses."""
    for result in run.tasks.values():
        if "extracted" not in result.headline and (number := result.headline.get("n_success_at_10")) is not None:
            return int(number)
    return None


def plan_of_manifest(path: Path) -> AuditPlan:
    """Return the plan of a manifest without its supporting canaries; near copies count as copies.

    Raises ManifestError.
    """
    canaries = read_manifest(path)
    tested, near = attacked(canaries), near_counts(canaries)
    planted = [canary for canary in tested if canary.planted]
    copies = Counter(canary.repetitions + near[canary.id] for canary in planted if canary.kind != NATURAL)
    natural = len(planted) - copies.total()
    sizes: list[float] = [canary.space.size for canary in tested] or [math.inf]
    smallest = min((canary.space.size for canary in planted if canary.kind != NATURAL), default=math.inf)
    return AuditPlan(copies, len(tested) - len(planted), natural, log2_size=math.log2(max(sizes)), chance=1 / smallest)


def _for_rate(goal: AuditGoal) -> Iterator[str]:
    if goal.rate is None:
        return
    if not 0 < goal.rate <= 1:
        raise OptionError(f"--rate is {goal.rate:g}: give a share above 0 and up to 1, such as 0.05")
    count = power.trials_for_rate(goal.rate, goal.chance)
    if count is None:
        why = f"against a chance of {goal.chance:g}: give a higher rate, or canaries with more possible secrets"
        raise _not_shown(f"--rate {goal.rate:g}", "canaries", f" {why}")
    yield f"an extraction rate of {percent(goal.rate)}: {count:,} canaries{_tier_text(goal, count)}"


def _for_exposure(goal: AuditGoal) -> Iterator[str]:
    if goal.exposure is None:
        return
    alone, twins = power.canaries_for_exposure(goal.exposure), power.balanced_canaries_for_exposure(goal.exposure)
    if alone is None or twins is None:
        why = f", as chance is {power.CHANCE_BITS:.2f} bits: give more"
        raise _not_shown(f"--exposure {goal.exposure:g}", "canaries", why)
    yield f"a mean exposure of {goal.exposure:g} bits, against chance: {alone:,} canaries{_tier_text(goal, alone)}"
    effect = f"a mean exposure of {goal.exposure:g} bits, by the AUC against controls"
    yield f"{effect}: {twins:,} canaries{_tier_text(goal, twins)} and {twins:,} controls"


def _for_epsilon(goal: AuditGoal) -> Iterator[str]:
    if goal.epsilon is None:
        return
    if not goal.epsilon > 0:
        raise OptionError(f"--epsilon is {goal.epsilon:g}: give a number above 0, such as 1")
    if not 0.5 < goal.accuracy <= 1:
        raise OptionError(f"--accuracy is {goal.accuracy:g}: give a share above 0.5 and up to 1, such as 0.95")
    guesses = f"if {percent(goal.accuracy)} of the guesses are right"
    swapped = power.pairs_for_epsilon(goal.epsilon, goal.accuracy)
    if swapped is None:
        why = f" {guesses}: give a smaller ε, or a higher --accuracy"
        raise _not_shown(f"--epsilon {goal.epsilon:g}", "pairs", why)
    yield f"an ε of {goal.epsilon:g}, one canary swapped, {guesses}: {swapped:,} pairs of a canary and a control"
    for copies in sorted(set(goal.tiers)):
        pairs = power.pairs_for_epsilon(goal.epsilon, goal.accuracy, 2 * copies)
        words = "no number of pairs detects it" if pairs is None else f"{pairs:,} pairs"
        effect = f"an ε of {goal.epsilon:g} for one row, of canaries {planted_words(copies)}"
        yield f"{effect} (a swap is {2 * copies} rows): {words}"


def _not_shown(option: str, unit: str, why: str) -> OptionError:
    return OptionError(f"{option}: even {power.MOST:,} {unit} do not detect it{why}")


def _tier_text(goal: AuditGoal, count: int) -> str:
    tiers = sorted(set(goal.tiers))
    if len(tiers) == 1:
        return ""
    *most, last = map(str, tiers)
    return f" in each tier ({count * len(tiers):,} in {len(tiers)} tiers of {', '.join(most)} and {last} copies)"


def _tier(plan: AuditPlan, count: int, name: str, rates: bool) -> str:
    if not count:
        planted = "training learnt from no planted canary" if plan.planted else "no canary planted"
        return f"{planted}: nothing can be shown"
    rate = f"{_rate(count, plan.chance)}, " if rates else ""
    bits = power.detectable_exposure(count, plan.log2_size)
    exposure = "no mean exposure" if bits is None else f"a mean exposure of {number(bits)} bits or more"
    return f"{count:,} {name}: {rate}{exposure}"


def _rate(count: int, chance: float) -> str:
    rate = power.least_rate(count, chance) if count else None
    return "no extraction rate" if rate is None else f"an extraction rate of {percent(rate)} or more"


def _controls(plan: AuditPlan) -> str:
    count = plan.controls
    if not count:
        return "no controls: no AUC, no ε, and no test for faults of the tool or of the planting"
    rate = "a TPR at 1 % FPR" if count >= ONE_IN else f"no TPR at 1 % FPR (takes {ONE_IN} controls)"
    bits = power.detectable_exposure(count, plan.log2_size, alpha=NOT_AT_CHANCE.below)
    fault = "no fault" if bits is None else f"a fault that exposes them by {number(bits)} bits or more on average"
    return f"{count:,} controls: {rate}; {fault}"
