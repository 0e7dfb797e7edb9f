"""The plan of one task on one model: each attack and kind of canary, from a pilot and the limits of the attack."""

from __future__ import annotations

import dataclasses
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import Finding
from leakage_tasks.attacks.redact import HidingSecrets
from leakage_tasks.attacks.registry import Attack, AttackRequest
from leakage_tasks.attacks.run import Hooks, run_chosen
from leakage_tasks.attacks.selection import AttackSettings, chosen_attacks
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.planning.estimate import QUANTITIES, KindPlan
from leakage_tasks.planning.expected_costs import ExpectedCosts, Pilot, comparison, draw_pilot, expected_costs
from leakage_tasks.planning.limits import AttackLimits, limits_of
from leakage_tasks.planning.memory import Memory, memory_of
from leakage_tasks.planning.meter import modules_of
from leakage_tasks.planning.pace import Pace, pace_of
from leakage_tasks.planning.pilot import AttackCost, attack_together, pilot_costs
from leakage_tasks.planning.watch import PilotWatch
from leakage_tasks.stats.totals import Stratum
from leakage_tasks.targets.memory import memory_within
from leakage_tasks.targets.protocols import PredictsNextToken, ScoresSequences
from leakage_tasks.targets.scheduler import OnRows
from leakage_tasks.tasks.attack_handler import attack_settings, prepared
from leakage_tasks.tasks.canary_tasks import CanaryTask

SPREAD = 16
"""Maximum number of canaries per kind whose spaces are analysed for the limits."""
COMPARED = 32
"""Maximum number of canaries per kind whose secrets are compared with random fillings, unless the pilot is larger."""
Pairs = Sequence[tuple[Attack, AttackRequest]]


class Planner:
    """The planner of one task on one model.

    ``expected`` holds the expected costs of attacks by canary id, which the planners of several tasks share.
    """

    def __init__(self, lm: Any, task: CanaryTask, pilot: int, expected: dict[str, ExpectedCosts] | None = None) -> None:
        self.lm, self.task, self.pilot = lm, task.task_name, pilot
        self.task_settings, canaries, self.target = prepared(lm, task.task_settings, task.test_docs())
        self.settings, self.seed = attack_settings(self.task_settings), int(self.task_settings["seed"])
        self.pairs = chosen_attacks(self.settings, self.target, canaries)
        self.modules = modules_of(lm)
        self.expected = {} if expected is None else expected
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
        self._compare([pairs for (_, kind), pairs in grouped.items() if kind != NATURAL], watch, tasks * len(grouped))
        samples = {key: self._sample(pairs) for key, pairs in grouped.items()}
        watch.begin(sum(len(sample.canaries) for sample in samples.values()), f"pilot of {self.task}")
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

    def _compare(self, groups: Sequence[Pairs], watch: PilotWatch, shares: int) -> None:
        """Learn the expected costs of canaries whose secrets are searched token by token, unless a planner has done so.

        This takes at most as much time as one of ``shares`` groups. The costs of further canaries, and of groups that
        are no larger than the pilot, remain unknown.
        """
        stream, most = random.Random(f"compare:{self.seed}"), max(COMPARED, 2 * self.pilot)
        wanted = [
            request.canary
            for pairs in groups
            if len(pairs) > self.pilot > 0 and _are_searches(pairs)
            for _, request in stream.sample(pairs, min(len(pairs), most))
        ]
        if self.expected or not wanted:
            return
        # If the time ends, the canaries that were compared must be random ones.
        stream.shuffle(wanted)
        watch.say(f"{self.task}: comparing {len(wanted)} secrets with random fillings to choose the pilot's canaries")
        watch.open_share(shares + 1)
        compared = partial(self.attacked, settings=comparison(self.seed, self.settings.context))
        with self._allowed():
            attempt = attack_together(wanted, compared, self.modules, 1, watch)
        self.spent += attempt.total.seconds
        watch.close_share(attempt.total.seconds)
        self.expected |= {wanted[index].id: expected_costs(finding) for index, finding in attempt.findings.items()}

    def _sample(self, pairs: Pairs) -> Pilot:
        canaries = [request.canary for _, request in pairs]
        kind = kind_of(canaries[0])
        expected = self.expected_by(pairs[0][0]) if kind != NATURAL and _are_searches(pairs) else {}
        return draw_pilot(canaries, self.pilot, expected, f"{self.seed}:{kind}")

    def expected_by(self, attack: Attack) -> Mapping[str, float]:
        """Return the expected costs of an attack on the compared canaries, by id."""
        is_exposure = attack.goal == "exposure"
        return {name: costs.exposure if is_exposure else costs.extraction for name, costs in self.expected.items()}

    def _kind(
        self,
        attack: str,
        kind: str,
        pairs: Pairs,
        sample: Pilot,
        watch: PilotWatch,
    ) -> KindPlan:
        started, limits = time.perf_counter(), _limits(pairs, kind, len(self.pairs))
        length = max(1, round(limits.tokens / limits.rows))
        taken, merged = pilot_costs(sample.canaries, self.attacked, self.modules, length, self.pace, watch)
        if taken:
            # The pilot has shown which ways of reading texts are right on this model.
            limits = _limits(pairs, kind, len(self.pairs))
        if sample.canaries:
            self.spent += time.perf_counter() - started
            watch.close_share(time.perf_counter() - started)
        # The rows of a pass would reveal the length of a natural canary.
        pace = self.pace if kind == NATURAL else dataclasses.replace(self.pace, at_once=limits.at_once)
        groups = _groups(len(pairs), taken, limits, pace, sample)
        unfinished = sum(not cost.complete for cost in taken.values())
        return KindPlan(self.task, attack, kind, len(pairs), len(taken), limits, groups, pace, merged, unfinished)

    def attacked(
        self,
        canaries: Sequence[Canary],
        on_rows: OnRows | None = None,
        done: Callable[[int, Finding], None] | None = None,
        settings: AttackSettings | None = None,
    ) -> list[Finding]:
        """Run the task's attack, or that of ``settings``, on some of its canaries, without natural canaries."""
        pairs = chosen_attacks(settings or self.settings, self.target, canaries)
        return run_chosen(pairs, Hooks(done=done, on_rows=on_rows))


def kind_of(canary: Canary) -> str:
    """Return the kind of a canary: natural, planted or control."""
    return NATURAL if canary.kind == NATURAL else "planted" if canary.planted else "control"


def _are_searches(pairs: Pairs) -> bool:
    """Return True if an attack reads token by token, and all its canaries can be compared with random fillings.

    The spaces of thousands of canaries are not analysed for this.
    """
    attack, first = pairs[0]
    targets = [request.target for _, request in pairs]
    scored = all(isinstance(each, PredictsNextToken) and isinstance(each, ScoresSequences) for each in targets)
    return scored and attack.most_calls(first).steps > 0


def _open_first(pairs: Pairs) -> AttackRequest:
    """Return the request that is used to time the model; a natural canary's only if there is no other."""
    return min((request for _, request in pairs), key=lambda request: request.canary.kind == NATURAL)


def _limits(pairs: Pairs, kind: str, canaries: int) -> AttackLimits:
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
    size: int, taken: Mapping[str, AttackCost], limits: AttackLimits, pace: Pace, sample: Pilot
) -> dict[str, Stratum]:
    """Return each quantity of a kind as a stratum with its sample. A canary takes at least one row."""
    costs = list(taken.values())
    slower = max((cost.seconds / max(pace.seconds(cost.passes, cost.tokens), 1e-9) for cost in costs), default=1.0)
    seconds = pace.seconds(1, 1), max(slower, 1.0) * pace.seconds(limits.passes, limits.tokens)
    ends = {"rows": (1, limits.rows), "passes": (1, limits.passes), "tokens": (1, limits.tokens), "seconds": seconds}
    finished = sorted(taken, key=lambda canary: not taken[canary].complete)
    chances = tuple(sample.chances[canary] * len(taken) / len(sample.canaries) for canary in finished if sample.chances)
    who = " ".join(canary.id for canary in sample.canaries)
    return {
        name: Stratum(
            size,
            tuple(float(getattr(cost, name)) for cost in costs if cost.complete),
            *ends[name],
            who,
            tuple(float(getattr(cost, name)) for cost in costs if not cost.complete),
            chances,
            sample.chance_error,
        )
        for name in QUANTITIES
    }
