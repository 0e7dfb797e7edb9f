"""Cost estimates of a run from the plans for each kind of canary: likely value, range and worst case."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakage_tasks.planning.limits import AttackLimits
from leakage_tasks.planning.memory import Memory
from leakage_tasks.planning.pace import Pace
from leakage_tasks.stats.totals import Stratum, total_range

NOISE = 1.25
"""Factor by which other load on the machine may change the time, in both directions."""
SLACK = 1.5
"""Ratio of the passes of merged searches to the smallest possible number."""
LONGER = 2.0
"""Ratio of the longest search to the longest of a pilot that is drawn by expected costs."""
MERGED = 0.75
"""Two searches count as merged if together they take at most this share of their separate passes."""
QUANTITIES = ("rows", "passes", "tokens", "seconds")


@dataclass(frozen=True)
class CostEstimate:
    """An estimate of a total: the value if the other canaries are like the pilot's, a range, and the worst case."""

    likely: float
    low: float
    high: float
    worst: float


@dataclass(frozen=True)
class KindPlan:
    """The cost of one attack on all canaries of one kind; ``groups`` holds each quantity, ``limits`` are for one
    canary."""

    task: str
    attack: str
    kind: str
    canaries: int
    piloted: int
    limits: AttackLimits
    groups: Mapping[str, Stratum]
    pace: Pace
    merged: bool
    """True if searches of different canaries share forward passes."""
    unfinished: int = 0
    """Number of the pilot's canaries whose attack was stopped by the time limit."""

    @property
    def known(self) -> bool:
        """True if the pilot finished an attack; else the likely value of an estimate is its largest."""
        return self.piloted > self.unfinished

    def estimate(self, quantity: str) -> CostEstimate:
        """Return the total of one of :data:`QUANTITIES`."""
        return estimate_of([self], quantity)


@dataclass(frozen=True)
class Plan:
    """The kinds of canaries by task and attack, and the memory for the largest of them."""

    kinds: Sequence[KindPlan]
    memory: Memory
    pilot_seconds: float

    def total(self, quantity: str) -> CostEstimate:
        """Return the total of one of :data:`QUANTITIES` over all kinds."""
        return estimate_of(self.kinds, quantity)


def estimate_of(kinds: Sequence[KindPlan], quantity: str) -> CostEstimate:
    """Return the total over kinds. Within a task, kinds with merged searches share forward passes."""
    apart = [kind for kind in kinds if not (kind.merged and quantity in ("passes", "seconds"))]
    merged = [kind for kind in kinds if kind not in apart]
    groups = [kind.groups[quantity] for kind in apart]
    total = _estimate(groups)
    for task in dict.fromkeys(kind.task for kind in merged):
        task_kinds = [kind for kind in merged if kind.task == task]
        shared = _shared_passes(task_kinds)
        if quantity == "seconds":
            pace = task_kinds[0].pace
            rest = _estimate([_without_passes(kind) for kind in task_kinds])
            shared = _sum(rest, CostEstimate(*(passes * pace.a_pass for passes in dataclasses.astuple(shared))))
        total = _sum(total, shared)
    if quantity != "seconds":
        return total
    return dataclasses.replace(total, low=total.low / NOISE, high=total.high * NOISE, worst=total.worst * NOISE)


def _estimate(groups: Sequence[Stratum]) -> CostEstimate:
    low, high = total_range(groups)
    likely = sum(group.likely for group in groups)
    worst = sum(group.size * max((group.most, *group.sampled, *group.unfinished)) for group in groups)
    return CostEstimate(min(max(likely, low), high), low, high, worst)


def _sum(one: CostEstimate, other: CostEstimate) -> CostEstimate:
    return CostEstimate(*(sum(pair) for pair in zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)))


def _shared_passes(kinds: Sequence[KindPlan]) -> CostEstimate:
    """Return the passes of searches that advance together, from all their rows and the longest single search."""
    rows = _estimate([kind.groups["rows"] for kind in kinds])
    passes = [kind.groups["passes"] for kind in kinds]
    seen = [depth for group in passes for depth in (*group.sampled, *group.unfinished)]
    worst = max([*seen, *(kind.limits.passes for kind in kinds)])
    unseen = [kind for kind in kinds if kind.piloted < kind.canaries and not kind.groups["rows"].chances]
    unseen += [kind for kind in kinds if kind.unfinished]
    most = max([*seen, *(kind.limits.passes for kind in unseen)])
    # A pilot drawn by expected costs usually contains long searches.
    drawn = any(kind.groups["rows"].chances for kind in kinds)
    high = max(most, min(worst, LONGER * max(seen))) if drawn else most
    depths = CostEstimate(max(seen, default=most), max(seen, default=1.0), high, worst)
    at_once = min(kind.pace.at_once for kind in kinds)
    ends = {}
    for end, number in dataclasses.asdict(rows).items():
        slack = 1.0 if end == "low" else SLACK
        ends[end] = passes_of_run(number, [getattr(depths, end)], at_once, True, slack)
    return CostEstimate(**ends)


def passes_of_run(rows: float, depths: Sequence[float], at_once: float, merged: bool, slack: float = SLACK) -> float:
    """Return the forward passes of searches that read ``rows`` rows in total, at most ``at_once`` per pass.

    ``depths`` holds the passes of each search when it runs alone. ``merged`` searches advance together: they take at
    least as many passes as the longest search alone, and as many as their rows fill. Other searches run in sequence.
    With a ``slack`` of 1, the result is the smallest possible number.
    """
    if not depths:
        return 0.0
    return slack * max(max(depths), rows / at_once) if merged else float(sum(depths))


def _without_passes(kind: KindPlan) -> Stratum:
    """Return the seconds of a kind's canaries without the fixed cost of their forward passes."""
    seconds, passes, a_pass = kind.groups["seconds"], kind.groups["passes"], kind.pace.a_pass
    rest, unfinished = (
        tuple(max(spent - a_pass * number, 0.0) for spent, number in zip(*pair, strict=True))
        for pair in ((seconds.sampled, passes.sampled), (seconds.unfinished, passes.unfinished))
    )
    return dataclasses.replace(seconds, sampled=rest, unfinished=unfinished, least=0.0)
