"""Estimates of a run from the plans of its kinds of canaries: likely, from, to, and the worst case."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakage_tasks.planning.bounds import Bounds
from leakage_tasks.planning.memory import Memory
from leakage_tasks.planning.pace import Pace
from leakage_tasks.planning.passes import SLACK, passes_of_run
from leakage_tasks.stats.totals import Stratum, total_range

NOISE = 1.25
"""What a machine's other work may do to seconds, either way."""
QUANTITIES = ("rows", "passes", "tokens", "seconds")


@dataclass(frozen=True)
class CostEstimate:
    """A total: if the others are as the pilot's, the ends of the range, and the worst case."""

    likely: float
    low: float
    high: float
    worst: float


@dataclass(frozen=True)
class KindPlan:
    """What all canaries of one kind will take of one attack; ``groups`` has each quantity, ``bounds`` a canary's."""

    task: str
    attack: str
    kind: str
    canaries: int
    piloted: int
    bounds: Bounds
    groups: Mapping[str, Stratum]
    pace: Pace
    merged: bool | None
    """Whether searches share passes; None if the pilot had no time to try it."""
    unfinished: int = 0
    """Canaries of the pilot whose attack the time limit ended."""

    def estimate(self, quantity: str) -> CostEstimate:
        """The total of one of :data:`QUANTITIES`."""
        return estimate_of([self], quantity)


@dataclass(frozen=True)
class Plan:
    """Kinds of canaries by task and attack, and the memory that the largest takes."""

    kinds: Sequence[KindPlan]
    memory: Memory
    pilot_seconds: float

    def total(self, quantity: str) -> CostEstimate:
        """The total of one of :data:`QUANTITIES` over all kinds."""
        return estimate_of(self.kinds, quantity)


def estimate_of(kinds: Sequence[KindPlan], quantity: str) -> CostEstimate:
    """The total over kinds; those whose searches are merged share their passes, task by task."""
    apart = [kind for kind in kinds if not (kind.merged and quantity in ("passes", "seconds"))]
    merged = [kind for kind in kinds if kind not in apart]
    groups = [kind.groups[quantity] for kind in apart]
    found = _estimate(groups)
    for task in dict.fromkeys(kind.task for kind in merged):
        own = [kind for kind in merged if kind.task == task]
        shared = _shared_passes(own)
        if quantity == "seconds":
            pace = own[0].pace
            beside = _estimate([_without_passes(kind) for kind in own])
            shared = _sum(beside, CostEstimate(*(each * pace.a_pass for each in dataclasses.astuple(shared))))
        found = _sum(found, shared)
    if quantity != "seconds":
        return found
    return dataclasses.replace(found, low=found.low / NOISE, high=found.high * NOISE, worst=found.worst * NOISE)


def _estimate(groups: Sequence[Stratum]) -> CostEstimate:
    low, high = total_range(groups)
    likely = sum(group.likely for group in groups)
    worst = sum(group.size * max((group.most, *group.sampled, *group.unfinished)) for group in groups)
    return CostEstimate(min(max(likely, low), high), low, high, worst)


def _sum(one: CostEstimate, other: CostEstimate) -> CostEstimate:
    return CostEstimate(*(sum(pair) for pair in zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)))


def _shared_passes(kinds: Sequence[KindPlan]) -> CostEstimate:
    """Passes of searches that advance together: by the rows of all, and the longest alone."""
    rows = _estimate([kind.groups["rows"] for kind in kinds])
    passes = [kind.groups["passes"] for kind in kinds]
    seen = [depth for group in passes for depth in (*group.sampled, *group.unfinished)]
    most = max(kind.bounds.passes.most for kind in kinds)
    depths = CostEstimate(max(seen, default=most), max(seen, default=1.0), most, most)
    at_once = min(kind.pace.at_once for kind in kinds)
    ends = {}
    for end, number in dataclasses.asdict(rows).items():
        slack = 1.0 if end == "low" else SLACK
        ends[end] = passes_of_run(number, [getattr(depths, end)], at_once, True, slack)
    return CostEstimate(**ends)


def _without_passes(kind: KindPlan) -> Stratum:
    """The seconds of a kind's canaries less what their passes take whatever they read."""
    seconds, passes, a_pass = kind.groups["seconds"], kind.groups["passes"], kind.pace.a_pass
    rest, unfinished = (
        tuple(max(own - a_pass * number, 0.0) for own, number in zip(*pair, strict=True))
        for pair in ((seconds.sampled, passes.sampled), (seconds.unfinished, passes.unfinished))
    )
    return dataclasses.replace(seconds, sampled=rest, unfinished=unfinished, least=0.0)
