"""The pilot of a plan: some canaries are attacked together to measure their cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from torch import nn

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.estimate import MERGED
from leakage_tasks.planning.meter import metered
from leakage_tasks.planning.pace import Pace
from leakage_tasks.planning.watch import PilotTimeUpError, PilotWatch
from leakage_tasks.targets.scheduler import OnRows

FEWEST = 3
"""Smallest pilot; with fewer canaries, a single one decides which cost is likely."""
Attacked = Callable[[Sequence[Canary], OnRows, Callable[[int, Finding], None]], object]
"""A function that attacks canaries; it calls its second argument with a canary's index and the rows that were read for
it, and its third with a canary's index and finding."""


@dataclass(frozen=True)
class AttackCost:
    """The cost of attacks: rows, forward passes and tokens of the model, and seconds.

    If it is not ``complete``, the time limit stopped an attack, and the full cost is this or more.
    """

    rows: float
    passes: float
    tokens: float
    seconds: float
    complete: bool = True


@dataclass
class Attempt:
    """Attacks on several canaries that ran together."""

    total: AttackCost = field(init=False)
    rows: dict[int, int] = field(default_factory=dict)
    """The number of rows read for each canary, by its index."""
    passes: dict[int, int] = field(default_factory=dict)
    """The number of passes that read rows for each canary, by its index."""
    findings: dict[int, Finding] = field(default_factory=dict)
    """The findings of finished attacks, by index of the canary."""


def check_number(number: int) -> None:
    """Raise OptionError for a pilot that is too small to be useful."""
    if number and number < FEWEST:
        raise OptionError(f"--pilot is {number}: give {FEWEST} or more canaries of each kind, or 0 for no pilot")


def pilot_costs(
    canaries: Sequence[Canary],
    attacked: Attacked,
    modules: Sequence[nn.Module],
    length: int,
    pace: Pace,
    watch: PilotWatch,
) -> tuple[dict[str, AttackCost], bool]:
    """Return the cost of each canary alone, by its id, and True if searches of different canaries share passes.

    The canaries are attacked together until the pilot's time is up; those whose attack has not begun are missing. Texts
    have about ``length`` tokens.
    """
    if not canaries:
        return {}, False
    attempt = attack_together(canaries, attacked, modules, length, watch)
    total, rows, passes = attempt.total, attempt.rows, attempt.passes
    if not rows:
        # Attacks that take all canaries in one call do not tell whose rows they read.
        rows = dict.fromkeys(range(len(canaries)), 1)
        passes = dict.fromkeys(rows, round(total.passes))
    merged = bool(modules) and len(rows) > 1 and total.passes <= MERGED * sum(passes.values())
    work = max(total.seconds - pace.a_pass * total.passes, 0.0)
    costs = {}
    for index in sorted(rows):
        share = rows[index] / sum(rows.values())
        alone = float(passes[index]) if merged else share * total.passes
        seconds = share * work + pace.a_pass * alone if merged else share * total.seconds
        cost = AttackCost(share * total.rows, alone, share * total.tokens, seconds, index in attempt.findings)
        costs[canaries[index].id] = cost
    return costs, merged


def attack_together(
    canaries: Sequence[Canary],
    attacked: Attacked,
    modules: Sequence[nn.Module],
    length: int,
    watch: PilotWatch | None = None,
) -> Attempt:
    """Attack canaries together and measure the cost, until the time limit of ``watch``."""
    attempt, watch = Attempt(), watch or PilotWatch()

    def on_rows(index: int, rows: int) -> None:
        attempt.rows[index] = attempt.rows.get(index, 0) + rows
        attempt.passes[index] = attempt.passes.get(index, 0) + 1
        watch.check()

    def done(index: int, finding: Finding) -> None:
        attempt.findings[index] = finding
        watch.attacked(1)

    complete = False
    started = time.perf_counter()
    with metered(modules, watch.passed) as count, suppress(PilotTimeUpError):
        attacked(canaries, on_rows, done)
        complete = True
    seconds = time.perf_counter() - started
    # The forward passes of an API model cannot be counted; its calls are whole texts.
    calls = sum(attempt.rows.values()) or sum(finding.model_calls or 0 for finding in attempt.findings.values())
    rows, passes = (count.rows, count.passes) if count.passes else (calls, calls)
    attempt.total = AttackCost(rows, passes, count.tokens or calls * length, seconds, complete)
    watch.add_rows(round(attempt.total.rows))
    return attempt
