"""What so many canaries and controls can show, in words: wanted, planned or found in a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from leakage_tasks.canaries.canary import AUXILIARY_KINDS
from leakage_tasks.canaries.manifest import read_manifest
from leakage_tasks.core.errors import OptionError
from leakage_tasks.metrics.exposure import NOT_AT_CHANCE
from leakage_tasks.metrics.tiers import planted_words
from leakage_tasks.report.load.format import number, percent
from leakage_tasks.report.load.run import Run
from leakage_tasks.stats import power
from leakage_tasks.stats.membership import ONE_IN

CERTAIN = f"{100 * power.POWER:.0f} % power"


@dataclass(frozen=True)
class AuditGoal:
    """What an audit is to show, None for what is not asked."""

    rate: float | None = None
    """A rate of extraction."""
    exposure: float | None = None
    """A mean exposure in bits."""
    epsilon: float | None = None
    """A lower bound on ε."""
    accuracy: float = 0.95
    """How often a guess at which of a pair was planted is right."""
    chance: float = 0.0
    """The rate at which guesses at random extract a secret."""
    tiers: tuple[int, ...] = (1,)
    """How many copies canaries are planted with."""


@dataclass(frozen=True)
class AuditPlan:
    """How many canaries are planted with how many copies each, how many controls there are."""

    planted: Mapping[int, int]
    controls: int


def needed(wanted: AuditGoal) -> list[str]:
    """How many canaries, controls and copies show what is wanted, a line each. Raises OptionError where none do."""
    return [*_for_rate(wanted), *_for_exposure(wanted), *_for_epsilon(wanted)]


def shown(planned: AuditPlan) -> list[str]:
    """What so many can show, and what they would miss, a line each."""
    lines = [_tier(number, planted_words(copies)) for copies, number in sorted(planned.planted.items()) if number]
    if len(lines) != 1:
        lines.append(_tier(sum(planned.planted.values()), "planted in all"))
    return [*lines, _controls(planned.controls)]


def of_run(run: Run) -> AuditPlan | None:
    """The canaries and controls that a run's results file tells of; None where it tells of none."""
    for _, result in sorted(run.tasks.items()):
        copies, controls = result.tested.get("repetitions"), result.tested.get("controls")
        if isinstance(copies, Mapping) and isinstance(controls, int):
            return AuditPlan({int(times): int(many) for times, many in copies.items()}, controls)
    return None


def of_manifest(path: Path) -> AuditPlan:
    """The canaries and controls of a manifest, supporting ones left out. Raises ManifestError."""
    attacked = [canary for canary in read_manifest(path) if canary.kind not in AUXILIARY_KINDS]
    planted = Counter(canary.repetitions for canary in attacked if canary.planted)
    return AuditPlan(planted, len(attacked) - planted.total())


def _for_rate(wanted: AuditGoal) -> Iterator[str]:
    if wanted.rate is None:
        return
    if not 0 < wanted.rate <= 1:
        raise OptionError(f"--rate is {wanted.rate:g}: give a share above 0 and up to 1, such as 0.05")
    found = power.trials_for_rate(wanted.rate, wanted.chance)
    if found is None:
        why = f"beside a chance of {wanted.chance:g}: give a higher rate, or canaries of more possible secrets"
        raise _not_shown(f"--rate {wanted.rate:g}", "canaries", f" {why}")
    yield f"an extraction rate of {percent(wanted.rate)}: {found:,} canaries{_each(wanted, found)}"


def _for_exposure(wanted: AuditGoal) -> Iterator[str]:
    if wanted.exposure is None:
        return
    alone, twins = power.canaries_for_exposure(wanted.exposure), power.twins_for_exposure(wanted.exposure)
    if alone is None or twins is None:
        why = f", as chance is {power.CHANCE_BITS:.2f} bits: give more"
        raise _not_shown(f"--exposure {wanted.exposure:g}", "canaries", why)
    yield f"a mean exposure of {wanted.exposure:g} bits, against chance: {alone:,} canaries{_each(wanted, alone)}"
    yield f"the same by the AUC, against controls: {twins:,} canaries{_each(wanted, twins)} and {twins:,} controls"


def _for_epsilon(wanted: AuditGoal) -> Iterator[str]:
    if wanted.epsilon is None:
        return
    if not wanted.epsilon > 0:
        raise OptionError(f"--epsilon is {wanted.epsilon:g}: give a number above 0, such as 1")
    if not 0.5 < wanted.accuracy <= 1:
        raise OptionError(f"--accuracy is {wanted.accuracy:g}: give a share above 0.5 and up to 1, such as 0.95")
    guesses = f"if {percent(wanted.accuracy)} of the guesses are right"
    swapped = power.pairs_for_epsilon(wanted.epsilon, wanted.accuracy)
    if swapped is None:
        why = f" {guesses}: take a smaller one, or a higher --accuracy"
        raise _not_shown(f"--epsilon {wanted.epsilon:g}", "pairs", why)
    yield f"an ε of {wanted.epsilon:g}, one canary swapped, {guesses}: {swapped:,} pairs of a canary and a control"
    for copies in sorted(set(wanted.tiers)):
        found = power.pairs_for_epsilon(wanted.epsilon, wanted.accuracy, 2 * copies)
        many = "no number of pairs shows it" if found is None else f"{found:,} pairs"
        yield f"the same for one row, of canaries {planted_words(copies)} (a swap is {2 * copies} rows): {many}"


def _not_shown(option: str, what: str, why: str) -> OptionError:
    return OptionError(f"{option}: no number of {what} up to {power.MOST:,} shows it{why}")


def _each(wanted: AuditGoal, count: int) -> str:
    tiers = sorted(set(wanted.tiers))
    if len(tiers) == 1:
        return ""
    *most, last = map(str, tiers)
    return f" in each tier ({count * len(tiers):,} in {len(tiers)} tiers of {', '.join(most)} and {last} copies)"


def _tier(count: int, which: str) -> str:
    if not count:
        return "no canary planted: nothing shown"
    rate, bits = power.least_rate(count), power.least_exposure(count)
    assert rate is not None
    leak = f"an extraction rate of {percent(rate)} or more, a mean exposure of {number(bits)} bits or more"
    return f"{count:,} {which}: {leak}"


def _controls(count: int) -> str:
    if not count:
        return "no controls: no AUC, no ε, and no fault of the tool or of the planting"
    rate = "a TPR at 1 % FPR" if count >= ONE_IN else f"no TPR at 1 % FPR (takes {ONE_IN} controls)"
    fault = power.least_exposure(count, alpha=NOT_AT_CHANCE.below)
    return f"{count:,} controls: {rate}; a fault that exposes them by {number(fault)} bits or more"
