"""Sharing requests between processes: all know what all were asked, each answers a part, all learn all answers.

The harness gives each process every n-th document. Canaries differ a hundredfold in what they take, and planted ones
and controls come in turn, so here processes take canaries one by one, the dearest first.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leakage_tasks.attacks.registry import BUDGET
from leakage_tasks.canaries import Canary
from leakage_tasks.core.null_results import ELSEWHERE, Unanswered
from leakage_tasks.core.processes import Processes, launched
from leakage_tasks.harness.api import LM, Instance
from leakage_tasks.harness.generation import request
from leakage_tasks.harness.plugin import runs_lm_eval
from leakage_tasks.targets.pass_size import is_spread
from leakage_tasks.targets.scheduler import MOST_AT_ONCE

Pool = dict[str, list[Instance]]
"""Requests of all processes by what they ask, each document's once, in the documents' order."""


def _as_it_is(answer: Any) -> Any:
    return answer


@dataclass(frozen=True)
class Sharing:
    """How a task's requests are shared."""

    by_attack: bool = False
    """Whether what answers takes its part itself, and gives None for what another process answers."""
    pack: Callable[[Any], Any] = _as_it_is
    """An answer as JSON can hold it."""
    unpack: Callable[[Any], Any] = _as_it_is
    """An answer from that."""


ALIKE = Sharing()
"""Every n-th request."""

SPARE: set[str] = set()
"""Tasks of the run that this process has no document of."""


def processes_of(lm: LM) -> Processes | None:
    """The processes that answer a model's requests together; None where this one answers all it is asked itself.

    On a CPU the harness' ``hf`` models take themselves for alone, so that each process is asked everything. Of a model
    whose layers are spread over the processes each must do the same.
    """
    if lm.world_size == 1 and not (runs_lm_eval() and _is_whole(lm)):
        return None
    found = launched()
    return found if found is not None and lm.world_size in (1, found.size) else None


def _is_whole(lm: LM) -> bool:
    """Whether each process has a model of its own, as far as that can be seen."""
    # It loads transformers, which reports do without.
    from leakage_tasks.harness.hf import HFLM

    return not is_spread(lm.model) if isinstance(lm, HFLM) else hasattr(lm, "weights")


def holders_of(lm: LM) -> Processes | None:
    """The processes that hold parts of one model, and must all ask it the same; None of a model that is whole."""
    # It loads transformers, which reports do without.
    from leakage_tasks.harness.hf import HFLM

    return launched() if isinstance(lm, HFLM) and is_spread(lm.model) else None


def rank_of(lm: LM) -> int:
    """The number of this process among those of the run, by which one of them speaks for all."""
    processes = launched()
    return lm.rank if processes is None else processes.rank


def pooled(processes: Processes, requests: Sequence[Instance]) -> Pool:
    """What all processes are asked."""
    own = [
        [json.dumps(each.args[1], sort_keys=True), each.task_name, each.doc_id, each.args[0], each.doc]
        for each in {id(each): each for each in requests}.values()
    ]
    kind = requests[0].request_type
    pool: dict[str, dict[tuple[str, int], Instance]] = {}
    for said in processes.exchange("asked", json.dumps(own)):
        for group_key, task, number, text, doc in json.loads(said):
            again = request(kind, doc, (text, json.loads(group_key)), number, task)
            pool.setdefault(group_key, {}).setdefault((task, number), again)
    return {group_key: [group[key] for key in sorted(group)] for group_key, group in pool.items()}


def merged(
    processes: Processes, found: Sequence[Any], places: Sequence[int], reason: str | None, sharing: Sharing
) -> tuple[dict[int, Any], Unanswered | None]:
    """All processes' answers by place, or why there are none; ``found`` are this one's, of ``places``."""
    own = {place: sharing.pack(each) for place, each in zip(places, found, strict=reason is None) if each is not None}
    told = [json.loads(each) for each in processes.exchange("answers", json.dumps([reason, own]))]
    failed = [rank for rank, (why, _) in enumerate(told) if why is not None]
    if failed:
        return {}, Unanswered(reason or ELSEWHERE, processes.rank == failed[0])
    return {int(place): sharing.unpack(each) for _, answers in reversed(told) for place, each in answers.items()}, None


@dataclass
class CanaryShare:
    """The canaries that this process takes: each time the dearest that is left.

    No process has more under way than its part of what is left, so that none is left with many at the end.
    """

    processes: Processes
    canaries: Sequence[Canary]
    budget: int | None
    missing: Sequence[int]
    """Places of the canaries that are to be attacked; what is taken is a number among these."""

    def __post_init__(self) -> None:
        cost = [predicted_cost(canary, self.budget) for canary in self.canaries]
        self._order = sorted(range(len(cost)), key=lambda index: -cost[index])
        self._among = {place: number for number, place in enumerate(self.missing)}

    def part(self, places: Sequence[int]) -> Sequence[int]:
        """Every n-th."""
        return places[self.processes.rank :: self.processes.size]

    def next_attack(self, under_way: int) -> int | None:
        """The dearest that is left, if this process may have one more."""
        self.processes.look()
        while under_way < min(MOST_AT_ONCE, max(1, self._left() // self.processes.size)):
            place = self.processes.count("taken") - 1
            if place >= len(self._order):
                return None
            number = self._among.get(self._order[place])
            if number is not None:
                return number
        return None

    def _left(self) -> int:
        return len(self._order) - self.processes.count("taken", 0)


def predicted_rows(canary: Canary, budget: int | None) -> float:
    """Rows that an attack may read, by which controls and what was planted once take longer than others."""
    return min(canary.attack_space.size, budget or BUDGET) / (1 + canary.repetitions * canary.planted)


def predicted_cost(canary: Canary, budget: int | None) -> float:
    """The same in characters, to go by which canary takes longer."""
    return predicted_rows(canary, budget) * len(canary.attack_space.fill(canary.secret))
