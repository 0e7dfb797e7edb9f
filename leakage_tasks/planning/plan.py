"""The plan of a run: for every task, attack and kind of canary what it will take, by a pilot or by the cost model."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
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
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan, Plan
from leakage_tasks.planning.memory import Memory, memory_of
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.planning.pace import Pace, pace_of
from leakage_tasks.planning.pilot import Taken, check_number, chosen, merges, piloted
from leakage_tasks.planning.watch import PilotWatch
from leakage_tasks.stats.totals import Stratum
from leakage_tasks.targets.memory_budget import memory_within
from leakage_tasks.tasks.attack_handler import prepared
from leakage_tasks.tasks.canary_tasks import CanaryExposure, CanaryExtraction

TASKS = {"canary_exposure": CanaryExposure, "canary_extraction": CanaryExtraction}
SPREAD = 16
"""Canaries of a kind whose spaces are laid out for the cost model, at most."""
NATURAL = "natural"


def make_plan(
    lm: Any,
    manifest: str,
    tasks: Sequence[str],
    metadata: Mapping[str, Any],
    pilot: int,
    watch: PilotWatch | None = None,
    chat: Mapping[str, Any] | None = None,
) -> Plan:
    """Plan a run of ``tasks`` on a harness model.

    Args:
        lm: The harness model.
        manifest: The canaries' manifest.
        tasks: Names in :data:`TASKS`.
        metadata: What ``--metadata`` says.
        pilot: The number of canaries of each kind that are attacked for the plan, 0 for none.
        watch: The pilot's time limit and its bar; by default the usual limit without a bar.
        chat: The harness' ``apply_chat_template`` and ``system_instruction``.

    Raises:
        OptionError: If a task is unknown or the pilot too small.
        LeakageError: As the tasks do.
    """
    check_number(pilot)
    for task in tasks:
        if task not in TASKS:
            raise OptionError(f"--tasks {task}: leakage plan knows {' and '.join(TASKS)}: use one of them, or both")
    if not tasks:
        raise OptionError(f"--tasks is empty: give {' or '.join(TASKS)}")
    found: list[KindPlan] = []
    memory, spent, watch = Memory(0, 0, 0), 0.0, watch or PilotWatch()
    names = list(dict.fromkeys(tasks))
    for index, task in enumerate(names):
        watch.say(f"{task}: checking the model's fast ways and timing its passes")
        planner = Planner(lm, task, manifest, metadata, pilot, chat)
        found += planner.kinds(watch, len(names) - index)
        memory, spent = memory.larger(planner.memory()), spent + planner.spent
    return Plan(found, memory, spent)


class Planner:
    """One task on one model."""

    def __init__(
        self,
        lm: Any,
        task: str,
        manifest: str,
        metadata: Mapping[str, Any],
        pilot: int,
        chat: Mapping[str, Any] | None = None,
    ) -> None:
        self.lm, self.task, self.pilot = lm, task, pilot
        self._watch = PilotWatch()
        made = TASKS[task]({"task": task, "metadata": {**metadata, "canaries": manifest}})
        made.take_chat(chat or {})
        self.task_settings, canaries, self.target = prepared(lm, made.task_settings, made.test_docs())
        self.context = Context(**self.task_settings["context"])
        task_settings = self.task_settings
        self.pairs = chosen_attacks(
            *(
                task_settings["attack"],
                self.target,
                canaries,
                task_settings["budget"],
                task_settings["seed"],
                task_settings["goal"],
                task_settings["settings"],
            ),
            self.context,
        )
        self.modules = modules_of(lm)
        self.spent = 0.0
        with self._allowed(), hiding(list(canaries)):
            self.pace = pace_of(_open_first(self.pairs), self.modules)

    def _allowed(self) -> AbstractContextManager[None]:
        """The memory that the run is given."""
        return memory_within(self.task_settings.get("memory"))

    def memory(self) -> Memory:
        """What the task's searches take."""
        with self._allowed(), hiding([request.canary for _, request in self.pairs]):
            return memory_of(_open_first(self.pairs), self.lm, self.pace.at_once, len(self.pairs))

    def kinds(self, watch: PilotWatch | None = None, tasks: int = 1) -> list[KindPlan]:
        """Return a plan for each attack and kind of canary, in the order they are met.

        The pilot's time is shared with ``tasks`` - 1 tasks that come after this one.
        """
        grouped: dict[tuple[str, str], list[tuple[Attack, AttackRequest]]] = {}
        for attack, request in self.pairs:
            grouped.setdefault((attack.name, kind_of(request.canary)), []).append((attack, request))
        self._watch = watch or PilotWatch()
        samples = {key: self._sample(pairs) for key, pairs in grouped.items()}
        self._watch.begin(sum(map(len, samples.values())), f"pilot of {self.task}")
        found = []
        try:
            with self._allowed():
                for index, (key, pairs) in enumerate(grouped.items()):
                    self._watch.open_share(tasks * len(grouped) - index)
                    found.append(self._kind(*key, pairs, samples[key]))
                    self._watch.planned(found[-1])
        finally:
            self._watch.end()
        return found

    def _sample(self, pairs: Sequence[tuple[Attack, AttackRequest]]) -> list[Canary]:
        return chosen([request.canary for _, request in pairs], self.pilot, int(self.task_settings["seed"]))

    def _kind(
        self, attack: str, kind: str, pairs: Sequence[tuple[Attack, AttackRequest]], sample: Sequence[Canary]
    ) -> KindPlan:
        started = time.perf_counter()
        bounds = _bounds(pairs, kind)
        length = max(1, round(bounds.tokens.most / max(bounds.rows.most, 1)))
        taken = piloted(sample, self.attacked, self.modules, length, self._watch)
        merged = merges(sample, taken, self.attacked, self.modules, self._watch)
        if sample:
            self.spent += time.perf_counter() - started
            self._watch.close_share(time.perf_counter() - started)
        pace = self.pace
        if attack in WHOLE_TEXTS:
            pace = dataclasses.replace(pace, at_once=case_of(*pairs[0]).at_once)
        tried = [canary for canary in sample if canary.id in taken]
        groups = _groups(len(pairs), [taken[canary.id] for canary in tried], bounds, pace, tried)
        unfinished = sum(not each.complete for each in taken.values())
        return KindPlan(self.task, attack, kind, len(pairs), len(tried), bounds, groups, pace, merged, unfinished)

    def attacked(self, canaries: Sequence[Canary]) -> list[Finding]:
        """What the task's attack finds out about some of its canaries, none of them natural."""
        task_settings = self.task_settings
        given = {"budget": task_settings["budget"], "seed": task_settings["seed"], "goal": task_settings["goal"]}
        asked = {"values": task_settings["settings"], "context": self.context}
        return run_attack(task_settings["attack"], self.target, canaries, **given, **asked, on_rows=self._watch.read)


def kind_of(canary: Canary) -> str:
    """Natural, planted or control."""
    return NATURAL if canary.kind == NATURAL else "planted" if canary.planted else "control"


def _open_first(pairs: Sequence[tuple[Attack, AttackRequest]]) -> AttackRequest:
    """The request that the model is timed with: a natural canary's only where there is no other."""
    return min((request for _, request in pairs), key=lambda request: request.canary.kind == NATURAL)


def _bounds(pairs: Sequence[tuple[Attack, AttackRequest]], kind: str) -> Bounds:
    """The least and the most of a kind's canaries; of natural ones no more than their budget lets be known."""
    every = pairs[:: -(-len(pairs) // SPREAD)]
    with hiding([request.canary for _, request in pairs]):
        found = [bounds_of(attack.name, case_of(attack, request)) for attack, request in every]
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
        name: Stratum(
            size,
            tuple(float(getattr(each, name)) for each in taken if each.complete),
            ends[name].least,
            ends[name].most,
            who,
            tuple(float(getattr(each, name)) for each in taken if not each.complete),
        )
        for name in QUANTITIES
    }
