"""The plan of a run: the cost of each task, attack and kind of canary, from a pilot and the limits of the attack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakage_tasks.attacks.redact import HidingLogs
from leakage_tasks.core.errors import OptionError
from leakage_tasks.planning.estimate import KindPlan, Plan
from leakage_tasks.planning.expected_costs import ExpectedCosts
from leakage_tasks.planning.memory import Memory
from leakage_tasks.planning.pilot import check_number
from leakage_tasks.planning.planner import Planner
from leakage_tasks.planning.watch import PilotWatch
from leakage_tasks.tasks.canary_tasks import CanaryExposure, CanaryExtraction, CanaryTask

TASKS: Mapping[str, type[CanaryTask]] = {"canary_exposure": CanaryExposure, "canary_extraction": CanaryExtraction}


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
    expected: dict[str, ExpectedCosts] = {}
    # Extraction usually reads fewer rows and leaves the rest of its time to exposure.
    for index, task in enumerate(sorted(tasks, key=lambda task: task.task_name, reverse=True)):
        watch.say(f"{task.task_name}: verifying fast scoring and timing forward passes")
        with HidingLogs(task.canaries):
            planner = Planner(lm, task, pilot, expected)
            kinds[task.task_name] = planner.kinds(watch, len(tasks) - index)
            memory, spent = memory.larger(planner.memory()), spent + planner.spent
    return Plan([kind for task in tasks for kind in kinds[task.task_name]], memory, spent)
