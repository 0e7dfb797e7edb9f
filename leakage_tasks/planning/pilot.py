"""Some of the canaries attacked before the run, one by one, so that what each takes is known."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.meter import metered
from leakage_tasks.planning.passes import MERGED

FEWEST = 5
"""A pilot of fewer would leave the range almost as wide as none."""
TRIED = 5
"""Canaries that are attacked together to see whether they share passes: two may not fill one."""
Attacked = Callable[[Sequence[Canary]], list[Finding]]


@dataclass(frozen=True)
class Taken:
    """What one attack took: rows and tokens that the model read, its passes, and seconds of it all."""

    rows: float
    passes: float
    tokens: float
    seconds: float


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
    canaries: Iterable[Canary], attacked: Attacked, modules: Sequence[nn.Module], length: int
) -> dict[str, Taken]:
    """What each canary takes by itself, by its id. Texts are about ``length`` tokens long."""
    return {canary.id: taken_together([canary], attacked, modules, length)[1] for canary in canaries}


def merges(canaries: Sequence[Canary], alone: dict[str, Taken], attacked: Attacked, modules: Any) -> bool:
    """Whether searches of different canaries share passes: tried with the few that took least alone."""
    few = sorted(canaries, key=lambda canary: alone[canary.id].rows)[:TRIED]
    if len(few) < 2 or not modules:
        return False
    _, met = taken_together(few, attacked, modules, 1)
    return met.passes <= MERGED * sum(alone[canary.id].passes for canary in few)


def taken_together(
    canaries: Sequence[Canary], attacked: Attacked, modules: Sequence[nn.Module], length: int
) -> tuple[list[Finding], Taken]:
    """What was found out of canaries that are attacked in one go, and what that took."""
    with metered(modules) as count:
        started = time.perf_counter()
        findings = attacked(canaries)
        seconds = time.perf_counter() - started
    # What no module tells of, as an API's model: whole texts.
    calls = sum(finding.model_calls or 0 for finding in findings)
    rows, passes = (count.rows, count.passes) if count.passes else (calls, calls)
    return findings, Taken(rows, passes, count.tokens or calls * length, seconds)
