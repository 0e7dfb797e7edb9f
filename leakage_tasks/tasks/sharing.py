"""Sharing of requests between processes: each process knows all requests, answers a part of them and gets all answers.

The harness gives each process every n-th document. The cost of canaries differs by a factor of 100, and planted
canaries and controls alternate, so processes here take canaries one by one, the highest cost first.
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
from leakage_tasks.targets.pass_rows import is_spread
from leakage_tasks.targets.scheduler import MOST_AT_ONCE

Pool = dict[str, list[Instance]]
"""Requests of all processes by their settings, each document once, in the order of the documents."""


def _unchanged(answer: Any) -> Any:
    return answer


@dataclass(frozen=True)
class Sharing:
    """The method by which several processes share a task's requests."""

    by_attack: bool = False
    """True if the function that answers requests chooses its part itself and returns None for the parts of other
    processes."""
    pack: Callable[[Any], Any] = _unchanged
    """Convert an answer to JSON."""
    unpack: Callable[[Any], Any] = _unchanged
    """Convert an answer from JSON."""


EVERY_NTH = Sharing()
"""Each process answers every n-th request."""

WITHOUT_DOCUMENT: set[str] = set()
"""Tasks of the run of which this process has no document of its own."""


def check_others(lm: LM) -> None:
    """Raise an error if another process that answers this model's requests has failed."""
    if (processes := processes_of(lm)) is not None:
        processes.check_others()


def processes_of(lm: LM) -> Processes | None:
    """Return the processes that answer a model's requests together; None if this process answers all of its requests.

    On a CPU the harness' ``hf`` models do not know of other processes, so each process gets every request. If the
    layers of a model are spread over processes, each process must do the same work.
    """
    if lm.world_size == 1 and not (runs_lm_eval() and _is_whole(lm)):
        return None
    processes = launched()
    return processes if processes is not None and lm.world_size in (1, processes.size) else None


def _is_whole(lm: LM) -> bool:
    """Return True if each process seems to have a model of its own."""
    # Transformers is imported late, because reports do not need it.
    from leakage_tasks.harness.hf import HFLM

    return not is_spread(lm.model) if isinstance(lm, HFLM) else hasattr(lm, "weights")


def holders_of(lm: LM) -> Processes | None:
    """Return the processes that hold parts of one model and must send equal requests; None for a model in one
    process."""
    # Transformers is imported late, because reports do not need it.
    from leakage_tasks.harness.hf import HFLM

    return launched() if isinstance(lm, HFLM) and is_spread(lm.model) else None


def rank_of(lm: LM) -> int:
    """Return the number of this process in the run; process 0 logs for all."""
    processes = launched()
    return lm.rank if processes is None else processes.rank


def pooled(processes: Processes, requests: Sequence[Instance]) -> Pool:
    """Return the requests of all processes."""
    own_requests = [
        [json.dumps(each.args[1], sort_keys=True), each.task_name, each.doc_id, each.args[0], each.doc]
        for each in {id(each): each for each in requests}.values()
    ]
    kind = requests[0].request_type
    pool: dict[str, dict[tuple[str, int], Instance]] = {}
    for part in processes.exchange("asked", json.dumps(own_requests)):
        for group_key, task, number, text, doc in json.loads(part):
            again = request(kind, doc, (text, json.loads(group_key)), number, task)
            pool.setdefault(group_key, {}).setdefault((task, number), again)
    return {group_key: [group[key] for key in sorted(group)] for group_key, group in pool.items()}


def merged(
    processes: Processes, own_answers: Sequence[Any], indices: Sequence[int], reason: str | None, sharing: Sharing
) -> tuple[dict[int, Any], Unanswered | None]:
    """Return the answers of all processes by index, or the reason why the requests have no answers.

    ``own_answers`` are the answers of this process, and ``indices`` the indices of its requests.
    """
    packed = {
        index: sharing.pack(answer)
        for index, answer in zip(indices, own_answers, strict=reason is None)
        if answer is not None
    }
    parts = [json.loads(each) for each in processes.exchange("answers", json.dumps([reason, packed]))]
    failed = [rank for rank, (why, _) in enumerate(parts) if why is not None]
    if failed:
        return {}, Unanswered(reason or ELSEWHERE, processes.rank == failed[0])
    return {
        int(index): sharing.unpack(answer) for _, answers in reversed(parts) for index, answer in answers.items()
    }, None


@dataclass
class CanaryShare:
    """This process's share of the canaries. The waiting canary with the highest cost is attacked first.

    A process attacks at most its share of the waiting canaries at a time, so that no process has many left at the end.
    """

    processes: Processes
    canaries: Sequence[Canary]
    budget: int | None
    missing: Sequence[int]
    """Indices of the canaries to attack. Other methods identify a canary by its position in this list."""

    def __post_init__(self) -> None:
        cost = [predicted_cost(canary, self.budget) for canary in self.canaries]
        self._order = sorted(range(len(cost)), key=lambda index: -cost[index])
        self._among = {index: number for number, index in enumerate(self.missing)}

    def part(self, indices: Sequence[int]) -> Sequence[int]:
        """Return every n-th index, as this process's part."""
        return indices[self.processes.rank :: self.processes.size]

    def next_attack(self, under_way: int) -> int | None:
        """Return the waiting canary with the highest cost, or None if this process has its share in progress."""
        self.processes.check_others()
        while under_way < min(MOST_AT_ONCE, max(1, self._left() // self.processes.size)):
            index = self.processes.count("taken") - 1
            if index >= len(self._order):
                return None
            number = self._among.get(self._order[index])
            if number is not None:
                return number
        return None

    def _left(self) -> int:
        return len(self._order) - self.processes.count("taken", 0)


def predicted_cost(canary: Canary, budget: int | None) -> float:
    """Return the predicted cost in characters, which orders the canaries.

    An attack reads more rows for controls and canaries planted once.
    """
    rows = min(canary.attack_space.size, budget or BUDGET) / (1 + canary.repetitions * canary.planted)
    return rows * len(canary.attack_space.fill(canary.secret))
