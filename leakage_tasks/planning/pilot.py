"""The pilot of a plan: some canaries are attacked one by one to measure their cost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from torch import nn

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.meter import metered
from leakage_tasks.planning.passes import MERGED
from leakage_tasks.planning.watch import PilotTimeUpError, PilotWatch

FEWEST = 5
"""Smallest pilot; with fewer canaries, the range is almost as wide as without a pilot."""
TRIED = 5
"""Number of canaries that are attacked together to test if searches share passes, since two may not fill a pass."""
Attacked = Callable[[Sequence[Canary]], list[Finding]]


@dataclass(frozen=True)
class AttackCost:
    """The cost of one attack: rows, forward passes and tokens of the model, and the total seconds.

    If it is not ``complete``, the time limit stopped the attack, and its full cost is this or more.
    """

    rows: float
    passes: float
    tokens: float
    seconds: float
    complete: bool = True


def sample_canaries(canaries: Sequence[Canary], number: int, seed: int) -> list[Canary]:
    """Draw a random sample of canaries without natural ones, or take all of them if there are at most ``number``.

    The cost of a search reveals how well the model knows a secret, so natural secrets are left out.
    """
    eligible = [canary for canary in canaries if canary.kind != "natural"]
    return random.Random(f"plan:{seed}").sample(eligible, min(number, len(eligible)))


def check_number(number: int) -> None:
    """Raise OptionError for a pilot that is too small to be useful."""
    if number and number < FEWEST:
        raise OptionError(f"--pilot is {number}: give {FEWEST} or more canaries of each kind, or 0 for no pilot")


def pilot_costs(
    canaries: Iterable[Canary], attacked: Attacked, modules: Sequence[nn.Module], length: int, watch: PilotWatch
) -> dict[str, AttackCost]:
    """Return the cost of each canary alone, by its id, until the pilot's time is up.

    The last canary may be incomplete, and the canaries after it are missing. Texts have about ``length`` tokens.
    """
    costs: dict[str, AttackCost] = {}
    for canary in canaries:
        if costs and watch.is_over:
            break
        _, costs[canary.id] = attack_together([canary], attacked, modules, length, watch)
        watch.attacked(1, costs[canary.id].rows)
        if not costs[canary.id].complete:
            break
    return costs


def merges(
    canaries: Sequence[Canary], alone: dict[str, AttackCost], attacked: Attacked, modules: Any, watch: PilotWatch
) -> bool | None:
    """Return True if searches of different canaries share forward passes, None if there was no time to test this.

    The test uses the few canaries with the lowest cost.
    """
    complete = [canary for canary in canaries if canary.id in alone and alone[canary.id].complete]
    few = sorted(complete, key=lambda canary: alone[canary.id].rows)[:TRIED]
    if not modules or len(canaries) < 2:
        return False
    if len(few) < 2:
        return None
    _, together = attack_together(few, attacked, modules, 1, watch)
    return together.passes <= MERGED * sum(alone[canary.id].passes for canary in few) if together.complete else None


def attack_together(
    canaries: Sequence[Canary],
    attacked: Attacked,
    modules: Sequence[nn.Module],
    length: int,
    watch: PilotWatch | None = None,
) -> tuple[list[Finding], AttackCost]:
    """Attack canaries together; return the findings and the cost.

    The findings are empty if the time limit of ``watch`` stopped the attack.
    """
    findings: list[Finding] = []
    complete = False
    started = time.perf_counter()
    with metered(modules, None if watch is None else watch.passed) as count, suppress(PilotTimeUpError):
        findings = attacked(canaries)
        complete = True
    seconds = time.perf_counter() - started
    # The forward passes of an API model cannot be counted; its calls are whole texts.
    calls = sum(finding.model_calls or 0 for finding in findings)
    rows, passes = (count.rows, count.passes) if count.passes else (calls, calls)
    return findings, AttackCost(rows, passes, count.tokens or calls * length, seconds, complete)
