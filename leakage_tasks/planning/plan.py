"""The plan of a run: for every task, attack and kind of canary what it will take, by a pilot or by the cost model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.redact import hiding
from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.attacks.run import chosen_attacks, run_attack
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.context import Context
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.bounds import Bounds, Range, bounds_of
from leakage_tasks.planning.case import WHOLE_TEXTS, case_of
from leakage_tasks.planning.memory import Memory, memory_of
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.planning.pace import Pace, pace_of
from leakage_tasks.planning.passes import SLACK, passes_of_run
from leakage_tasks.planning.pilot import Taken, check_number, chosen, merges, piloted
from leakage_tasks.stats.totals import Stratum, total_range
from leakage_tasks.targets.memory_budget import memory_within
from leakage_tasks.tasks.answer_attacks import prepared
from leakage_tasks.tasks.canary_tasks import CanaryExposure, CanaryExtraction

TASKS = {"canary_exposure": CanaryExposure, "canary_extraction": CanaryExtraction}
SPREAD = 16
"""Canaries of a kind whose spaces are laid out for the cost model, at most."""
NOISE = 1.25
"""What a machine's other work may do to seconds, either way."""
QUANTITIES = ("rows", "passes", "tokens", "seconds")
NATURAL = "natural"


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
    merged: bool

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
    worst = sum(group.size * max((group.most, *group.sampled)) for group in groups)
    return CostEstimate(min(max(likely, low), high), low, high, worst)


def _sum(one: CostEstimate, other: CostEstimate) -> CostEstimate:
    return CostEstimate(*(sum(pair) for pair in zip(dataclasses.astuple(one), dataclasses.astuple(other), strict=True)))


def _shared_passes(kinds: Sequence[KindPlan]) -> CostEstimate:
    """Passes of searches that advance together: by the rows of all, and the longest alone."""
    rows = _estimate([kind.groups["rows"] for kind in kinds])
    seen = [depth for kind in kinds for depth in kind.groups["passes"].sampled]
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
    rest = tuple(max(own - a_pass * number, 0.0) for own, number in zip(seconds.sampled, passes.sampled, strict=True))
    return dataclasses.replace(seconds, sampled=rest, least=0.0)


def make_plan(lm: Any, manifest: str, tasks: Sequence[str], metadata: Mapping[str, Any], pilot: int) -> Plan:
    """Plan a run of ``tasks`` on a harness model; ``pilot`` canaries of each kind are attacked for it, none for 0.

    Raises OptionError for other tasks and a pilot that is too small, and LeakageError as the tasks do.
    """
    check_number(pilot)
    for task in tasks:
        if task not in TASKS:
            raise OptionError(f"--tasks {task}: leakage plan knows {' and '.join(TASKS)}: use one of them, or both")
    if not tasks:
        raise OptionError(f"--tasks is empty: give {' or '.join(TASKS)}")
    found: list[KindPlan] = []
    memory, spent = Memory(0, 0, 0), 0.0
    for task in dict.fromkeys(tasks):
        planner = Planner(lm, task, manifest, metadata, pilot)
        found += planner.kinds()
        memory, spent = memory.larger(planner.memory()), spent + planner.spent
    return Plan(found, memory, spent)


class Planner:
    """One task on one model."""

    def __init__(self, lm: Any, task: str, manifest: str, metadata: Mapping[str, Any], pilot: int) -> None:
        self.lm, self.task, self.pilot = lm, task, pilot
        made = TASKS[task]({"task": task, "metadata": {**metadata, "canaries": manifest}})
        self.order, canaries, self.target = prepared(lm, made.order, made.test_docs())
        self.context = Context(**self.order["context"])
        order = self.order
        self.pairs = chosen_attacks(
            *(order["attack"], self.target, canaries, order["budget"], order["seed"], order["goal"], order["settings"]),
            self.context,
        )
        self.modules = modules_of(lm)
        self.spent = 0.0
        with self._allowed(), hiding(list(canaries)):
            self.pace = pace_of(_open_first(self.pairs), self.modules)

    def _allowed(self) -> AbstractContextManager[None]:
        """The memory that the run is given."""
        return memory_within(self.order.get("memory"))

    def memory(self) -> Memory:
        """What the task's searches take."""
        with self._allowed(), hiding([order.canary for _, order in self.pairs]):
            return memory_of(_open_first(self.pairs), self.lm, self.pace.at_once, len(self.pairs))

    def kinds(self) -> list[KindPlan]:
        """A plan for each attack and kind of canary, in the order they are met."""
        grouped: dict[tuple[str, str], list[tuple[Attack, AttackRequest]]] = {}
        for attack, order in self.pairs:
            grouped.setdefault((attack.name, kind_of(order.canary)), []).append((attack, order))
        with self._allowed():
            return [self._kind(attack, kind, pairs) for (attack, kind), pairs in grouped.items()]

    def _kind(self, attack: str, kind: str, pairs: Sequence[tuple[Attack, AttackRequest]]) -> KindPlan:
        canaries = [order.canary for _, order in pairs]
        bounds = _bounds(pairs, kind)
        sample = chosen(canaries, self.pilot, int(self.order["seed"]))
        length = max(1, round(bounds.tokens.most / max(bounds.rows.most, 1)))
        taken = piloted(sample, self.attacked, self.modules, length)
        merged = merges(sample, taken, self.attacked, self.modules)
        self.spent += sum(each.seconds for each in taken.values())
        pace = self.pace
        if attack in WHOLE_TEXTS:
            pace = dataclasses.replace(pace, at_once=case_of(*pairs[0]).at_once)
        groups = _groups(len(canaries), [taken[canary.id] for canary in sample], bounds, pace, sample)
        return KindPlan(self.task, attack, kind, len(canaries), len(sample), bounds, groups, pace, merged)

    def attacked(self, canaries: Sequence[Canary]) -> list[Finding]:
        """What the task's attack finds out about some of its canaries, none of them natural."""
        order = self.order
        given = {"budget": order["budget"], "seed": order["seed"], "goal": order["goal"]}
        asked = {"settings": order["settings"], "context": self.context}
        return run_attack(order["attack"], self.target, canaries, **given, **asked)


def kind_of(canary: Canary) -> str:
    """Natural, planted or control."""
    return NATURAL if canary.kind == NATURAL else "planted" if canary.planted else "control"


def _open_first(pairs: Sequence[tuple[Attack, AttackRequest]]) -> AttackRequest:
    """The order that the model is timed with: a natural canary's only where there is no other."""
    return min((order for _, order in pairs), key=lambda order: order.canary.kind == NATURAL)


def _bounds(pairs: Sequence[tuple[Attack, AttackRequest]], kind: str) -> Bounds:
    """The least and the most of a kind's canaries; of natural ones no more than their budget lets be known."""
    every = pairs[:: -(-len(pairs) // SPREAD)]
    with hiding([order.canary for _, order in pairs]):
        found = [bounds_of(attack.name, case_of(attack, order)) for attack, order in every]
    ends = {
        name: Range(min(getattr(each, name).least for each in found), max(getattr(each, name).most for each in found))
        for name in ("rows", "passes", "tokens")
    }
    return Bounds(**({name: _coarse(each) for name, each in ends.items()} if kind == NATURAL else ends))


def _coarse(ends: Range) -> Range:
    """From 1 to the next power of two, which tells neither how long a secret is nor what is known around it."""
    return Range(1, float(1 << max(int(ends.most) - 1, 0).bit_length()))


def _groups(
    size: int, taken: Sequence[Taken], bounds: Bounds, pace: Pace, sample: Sequence[Canary]
) -> dict[str, Stratum]:
    """Each quantity of a kind as a group with its sample."""
    slower = max((each.seconds / max(pace.seconds(each.passes, each.tokens), 1e-9) for each in taken), default=1.0)
    ends = {
        **{name: getattr(bounds, name) for name in ("rows", "passes", "tokens")},
        "seconds": Range(
            pace.seconds(bounds.passes.least, bounds.tokens.least),
            max(slower, 1.0) * pace.seconds(bounds.passes.most, bounds.tokens.most),
        ),
    }
    who = " ".join(canary.id for canary in sample)
    return {
        name: Stratum(size, tuple(float(getattr(each, name)) for each in taken), ends[name].least, ends[name].most, who)
        for name in QUANTITIES
    }
