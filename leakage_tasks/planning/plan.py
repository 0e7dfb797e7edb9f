"""The plan of a run: the cost of each task, attack and kind of canary, from a pilot and the limits of the attack."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.redact import HidingLogs, HidingSecrets
from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.attacks.run import Hooks, run_chosen
from leakage_tasks.attacks.selection import chosen_attacks
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan, Plan
from leakage_tasks.planning.limits import AttackLimits, limits_of
from leakage_tasks.planning.memory import Memory, memory_of
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.planning.pace import Pace, pace_of
from leakage_tasks.planning.pilot import AttackCost, check_number, pilot_costs, sample_canaries
from leakage_tasks.planning.watch import PilotWatch
from leakage_tasks.stats.totals import Stratum
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.targets.scheduler import OnRows
from leakage_tasks.tasks.attack_handler import attack_settings, prepared
from leakage_tasks.tasks.canary_tasks import CanaryExposure, CanaryExtraction, CanaryTask

TASKS: Mapping[str, type[CanaryTask]] = {"canary_exposure": CanaryExposure, "canary_extraction": CanaryExtraction}
SPREAD = 16
"""Maximum number of canaries per kind whose spaces are analysed for the limits."""
NATURAL = "natural"


def planned_tasks(
    names: Sequence[str], manifest: str, metadata: Mapping[str, Any], chat: Mapping[str, Any] | None = None
) -> list[CanaryTask]:
    """Return the tasks of a plan. This reads the manifest and checks all options that need no model.

    Args:
        names: Names in :data:`TASKS`.
        manifest: Path of the canaries' manifest.
        metadata: The values of ``--metadata``.
        chat: The harness' ``apply_chat_template`` and ``system_instruction``.

    Raises:
        OptionError: If a task is unknown.
        LeakageError: If a task cannot run with this manifest or metadata.
    """
    for name in names:
        if name not in TASKS:
            raise OptionError(f"--tasks {name}: leakage plan knows {' and '.join(TASKS)}: use one of them, or both")
    if not names:
        raise OptionError(f"--tasks is empty: give {' or '.join(TASKS)}")
    given = {**metadata, "canaries": manifest}
    tasks = [TASKS[name]({"task": name, "metadata": given}) for name in dict.fromkeys(names)]
    for task in tasks:
        task.take_chat(chat or {})
    return tasks


def make_plan(lm: Any, tasks: Sequence[CanaryTask], pilot: int, watch: PilotWatch | None = None) -> Plan:
    """Plan a run of ``tasks`` on a harness model.

    Args:
        lm: The harness model.
        tasks: The result of :func:`planned_tasks`.
        pilot: Number of canaries of each kind to attack for the plan; 0 for no pilot.
        watch: The pilot's time limit and progress bar; by default the usual limit without a bar.

    Raises:
        OptionError: If the pilot is too small.
        LeakageError: If a task cannot run with this model.
    """
    check_number(pilot)
    kinds: dict[str, list[KindPlan]] = {}
    memory, spent, watch = Memory(0, 0, 0), 0.0, watch or PilotWatch()
    # Extraction usually reads fewer rows and leaves the rest of its time to exposure.
    for index, task in enumerate(sorted(tasks, key=lambda task: task.task_name, reverse=True)):
        watch.say(f"{task.task_name}: verifying fast scoring and timing forward passes")
        with HidingLogs(task.canaries):
            planner = Planner(lm, task, pilot)
            kinds[task.task_name] = planner.kinds(watch, len(tasks) - index)
            memory, spent = memory.larger(planner.memory()), spent + planner.spent
    return Plan([kind for task in tasks for kind in kinds[task.task_name]], memory, spent)


class Planner:
    """The planner of one task on one model."""

    def __init__(self, lm: Any, task: CanaryTask, pilot: int) -> None:
        self.lm, self.task, self.pilot = lm, task.task_name, pilot
        self.task_settings, canaries, self.target = prepared(lm, task.task_settings, task.test_docs())
        self.settings = attack_settings(self.task_settings)
        self.pairs = chosen_attacks(self.settings, self.target, canaries)
        self.modules = modules_of(lm)
        self.spent = 0.0
        with self._allowed(), HidingSecrets(list(canaries)):
            self.pace = pace_of(_open_first(self.pairs), self.modules)

    def _allowed(self) -> AbstractContextManager[None]:
        """Return a context with the run's memory limit."""
        return memory_within(self.task_settings.get("memory"))

    def memory(self) -> Memory:
        """Return the memory for the task's searches."""
        with self._allowed(), HidingSecrets([request.canary for _, request in self.pairs]):
            return memory_of(_open_first(self.pairs), self.lm, self.pace.at_once, len(self.pairs))

    def kinds(self, watch: PilotWatch | None = None, tasks: int = 1) -> list[KindPlan]:
        """Return a plan for each attack and kind of canary, in order of appearance.

        The remaining pilot time is split over ``tasks`` tasks, of which this is the first.
        """
        grouped: dict[tuple[str, str], list[tuple[Attack, AttackRequest]]] = {}
        for attack, request in self.pairs:
            grouped.setdefault((attack.name, kind_of(request.canary)), []).append((attack, request))
        watch = watch or PilotWatch()
        samples = {key: self._sample(pairs) for key, pairs in grouped.items()}
        watch.begin(sum(map(len, samples.values())), f"pilot of {self.task}")
        plans = []
        try:
            with self._allowed():
                for index, (key, pairs) in enumerate(grouped.items()):
                    watch.open_share(tasks * len(grouped) - index)
                    plans.append(self._kind(*key, pairs, samples[key], watch))
                    watch.planned(plans[-1])
        finally:
            watch.end()
        return plans

    def _sample(self, pairs: Sequence[tuple[Attack, AttackRequest]]) -> list[Canary]:
        return sample_canaries([request.canary for _, request in pairs], self.pilot, int(self.task_settings["seed"]))

    def _kind(
        self,
        attack: str,
        kind: str,
        pairs: Sequence[tuple[Attack, AttackRequest]],
        sample: Sequence[Canary],
        watch: PilotWatch,
    ) -> KindPlan:
        started, limits = time.perf_counter(), _limits(pairs, kind, len(self.pairs))
        length = max(1, round(limits.tokens / limits.rows))
        taken, merged = pilot_costs(sample, self.attacked, self.modules, length, self.pace, watch)
        if taken:
            # The pilot has shown which ways of reading texts are right on this model.
            limits = _limits(pairs, kind, len(self.pairs))
        if sample:
            self.spent += time.perf_counter() - started
            watch.close_share(time.perf_counter() - started)
        # The rows of a pass would reveal the length of a natural canary.
        pace = self.pace if kind == NATURAL else dataclasses.replace(self.pace, at_once=limits.at_once)
        tried = [canary for canary in sample if canary.id in taken]
        groups = _groups(len(pairs), [taken[canary.id] for canary in tried], limits, pace, tried)
        unfinished = sum(not cost.complete for cost in taken.values())
        return KindPlan(self.task, attack, kind, len(pairs), len(tried), limits, groups, pace, merged, unfinished)

    def attacked(
        self,
        canaries: Sequence[Canary],
        on_rows: OnRows | None = None,
        done: Callable[[int, Finding], None] | None = None,
    ) -> list[Finding]:
        """Run the task's attack on some of its canaries, without natural canaries."""
        return run_chosen(chosen_attacks(self.settings, self.target, canaries), Hooks(done=done, on_rows=on_rows))


def kind_of(canary: Canary) -> str:
    """Return the kind of a canary: natural, planted or control."""
    return NATURAL if canary.kind == NATURAL else "planted" if canary.planted else "control"


def _open_first(pairs: Sequence[tuple[Attack, AttackRequest]]) -> AttackRequest:
    """Return the request that is used to time the model; a natural canary's only if there is no other."""
    return min((request for _, request in pairs), key=lambda request: request.canary.kind == NATURAL)


def _limits(pairs: Sequence[tuple[Attack, AttackRequest]], kind: str, canaries: int) -> AttackLimits:
    """Return the limits of a kind of canary in a run over a number of ``canaries``.

    Natural canaries' limits are powers of two, which hide a secret's length and the known text around it.
    """
    every = pairs[:: -(-len(pairs) // SPREAD)]
    with HidingSecrets([request.canary for _, request in pairs]):
        limits = [dataclasses.astuple(limits_of(attack, request, canaries)) for attack, request in every]
    rows, passes, tokens, at_once = (max(values) for values in zip(*limits, strict=True))
    if kind == NATURAL:
        rows, passes, tokens = (float(1 << max(int(most) - 1, 0).bit_length()) for most in (rows, passes, tokens))
    return AttackLimits(rows, passes, tokens, at_once)


def _groups(
    size: int, taken: Sequence[AttackCost], limits: AttackLimits, pace: Pace, sample: Sequence[Canary]
) -> dict[str, Stratum]:
    """Return each quantity of a kind as a stratum with its sample. A canary takes at least one row."""
    slower = max((cost.seconds / max(pace.seconds(cost.passes, cost.tokens), 1e-9) for cost in taken), default=1.0)
    seconds = pace.seconds(1, 1), max(slower, 1.0) * pace.seconds(limits.passes, limits.tokens)
    ends = {"rows": (1, limits.rows), "passes": (1, limits.passes), "tokens": (1, limits.tokens), "seconds": seconds}
    who = " ".join(canary.id for canary in sample)
    return {
        name: Stratum(
            size,
            tuple(float(getattr(cost, name)) for cost in taken if cost.complete),
            *ends[name],
            who,
            tuple(float(getattr(cost, name)) for cost in taken if not cost.complete),
        )
        for name in QUANTITIES
    }
