"""Some of the canaries attacked before the run, one by one, so that what each takes is known."""

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
"""A pilot of fewer would leave the range almost as wide as none."""
TRIED = 5
"""Canaries that are attacked together to see whether they share passes: two may not fill one."""
Attacked = Callable[[Sequence[Canary]], list[Finding]]


@dataclass(frozen=True)
class Taken:
    """What one attack took: rows and tokens that the model read, its passes, and seconds of it all.

    An attack that is not ``complete`` was ended by the pilot's time limit, so that it takes as much or more.
    """

    rows: float
    passes: float
    tokens: float
    seconds: float
    complete: bool = True


def chosen(canaries: Sequence[Canary], number: int, seed: int) -> list[Canary]:
    """A random sample of one kind of canaries: all of them where there are no more, none of natural ones.

    What a search takes tells how well the model knows a secret.
    """
    told = [canary for canary in canaries if canary.kind != "natural"]
    return random.Random(f"plan:{seed}").sample(told, min(number, len(told)))


def check_number(number: int) -> None:
    """Raise OptionError for a pilot too small to say anything."""
    if number and number < FEWEST:
        raise OptionError(f"--pilot is {number}: give {FEWEST} or more canaries of each kind, or 0 for none")


def piloted(
    canaries: Iterable[Canary], attacked: Attacked, modules: Sequence[nn.Module], length: int, watch: PilotWatch
) -> dict[str, Taken]:
    """Return what each canary takes by itself, by its id, as far as the pilot's time goes.

    The last one may be incomplete; those after it are missing. Texts are about ``length`` tokens long.
    """
    found: dict[str, Taken] = {}
    for canary in canaries:
        if found and watch.is_over:
            break
        _, found[canary.id] = taken_together([canary], attacked, modules, length, watch)
        watch.attacked(1, found[canary.id].rows)
        if not found[canary.id].complete:
            break
    return found


def merges(
    canaries: Sequence[Canary], alone: dict[str, Taken], attacked: Attacked, modules: Any, watch: PilotWatch
) -> bool | None:
    """Return whether searches of different canaries share passes, None if there was no time to try it.

    It is tried with the few that took least alone.
    """
    complete = [canary for canary in canaries if canary.id in alone and alone[canary.id].complete]
    few = sorted(complete, key=lambda canary: alone[canary.id].rows)[:TRIED]
    if not modules or len(canaries) < 2:
        return False
    if len(few) < 2:
        return None
    _, met = taken_together(few, attacked, modules, 1, watch)
    return met.passes <= MERGED * sum(alone[canary.id].passes for canary in few) if met.complete else None


def taken_together(
    canaries: Sequence[Canary],
    attacked: Attacked,
    modules: Sequence[nn.Module],
    length: int,
    watch: PilotWatch | None = None,
) -> tuple[list[Finding], Taken]:
    """Return what was found out of canaries that are attacked in one go, and what that took.

    Without findings the attack was ended by the ``watch``, whose time was up.
    """
    findings: list[Finding] = []
    complete = False
    started = time.perf_counter()
    with metered(modules, None if watch is None else watch.passed) as count, suppress(PilotTimeUpError):
        findings = attacked(canaries)
        complete = True
    seconds = time.perf_counter() - started
    # An API's model has no passes that are counted: its calls are whole texts.
    calls = sum(finding.model_calls or 0 for finding in findings)
    rows, passes = (count.rows, count.passes) if count.passes else (calls, calls)
    return findings, Taken(rows, passes, count.tokens or calls * length, seconds, complete)
