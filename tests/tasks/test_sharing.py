"""How processes share canaries, and what becomes of what one of them cannot answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch.distributed as dist

from leakage_tasks.canaries import make_canaries
from leakage_tasks.core import processes
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.processes import Processes, ProcessLost
from leakage_tasks.harness.api import Instance
from leakage_tasks.harness.generation import request
from leakage_tasks.tasks import dispatch
from leakage_tasks.tasks.sharing import CanaryShare, Sharing, predicted_cost
from tests.core.test_processes import run

CANARIES = make_canaries("pin {unique} is {digits:3}", 9, repetitions=(1, 4), controls=8)


def in_a_call(act: Callable[[Processes], Any]) -> Callable[[Processes], Any]:
    def called(own: Processes) -> Any:
        with own.call():
            return act(own)

    return called


@pytest.mark.parametrize("number", [2, 3, 20])
def test_each_canary_is_taken_once(number: int) -> None:
    missing = [place for place in range(len(CANARIES)) if place != 5]

    def act(own: Processes) -> list[int]:
        share, taken = CanaryShare(own, CANARIES, None, missing), []
        while (one := share.next_attack(0)) is not None:
            taken.append(missing[one])
        return taken

    assert sorted(place for each in run(number, in_a_call(act)) for place in each) == missing


def test_the_dearest_come_first() -> None:
    def act(own: Processes) -> list[str]:
        share = CanaryShare(own, CANARIES, None, range(len(CANARIES)))
        return [CANARIES[place].id.split("-")[0] for place in iter(lambda: share.next_attack(0), None)]

    (taken,) = run(1, in_a_call(act))
    assert taken == ["control"] * 8 + ["canary"] * 9
    once, often = (next(each for each in CANARIES if each.repetitions == times) for times in (1, 4))
    assert predicted_cost(once, None) > predicted_cost(often, None)


def test_no_process_has_more_under_way_than_its_part_of_what_is_left() -> None:
    def act(own: Processes) -> list[int]:
        share = CanaryShare(own, CANARIES, None, range(len(CANARIES)))
        return [sum(share.next_attack(under_way) is not None for under_way in range(17)) for _ in range(own.size)]

    store = dist.HashStore()
    own = Processes(store, 0, 3)
    with own.call():
        # It takes while it has less than a third of those left: the fifth of 17 it would have beside 4 of 13.
        assert act(own) == [4, 3, 2]


def test_what_one_attack_takes_at_once_is_parted() -> None:
    def act(own: Processes) -> Sequence[int]:
        return CanaryShare(own, CANARIES, None, range(5)).part([0, 2, 4])

    assert run(2, in_a_call(act)) == [[0, 4], [2]]


# -- answers ------------------------------------------------------------------------------------------------


def asked(task: str, number: int) -> Instance:
    return request("attack", {"n": number}, ("", {"task": task, "optional": task != "must"}), number, task)


def answered(
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    answer: Callable[[int, Mapping[str, Any], Sequence[Instance]], list[Any]],
    tasks: Sequence[str],
    sharing: Sharing = dispatch.EVERY_NTH,
) -> list[Any]:
    """What processes of which each was asked every n-th of five documents of each task are answered."""
    here = threading.local()
    monkeypatch.setattr(dispatch, "processes_of", lambda lm: here.own)

    def act(own: Processes) -> Any:
        here.own = own
        requests = [asked(task, place) for task in tasks for place in range(own.rank, 5, own.size)]
        padded = [*requests, requests[-1]]
        return dispatch.answer_by_group(
            object(),
            padded,
            lambda task_settings, group: answer(own.rank, task_settings, group),
            sharing,  # type: ignore[arg-type]
        )

    return run(number, act)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_process_has_the_answers_to_what_it_was_asked(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    asked_for: list[int] = []

    def answer(rank: int, task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str]:
        asked_for.extend(each.doc["n"] for each in group)
        return [f"{task_settings['task']}{each.doc['n']}" for each in group]

    found = answered(monkeypatch, number, answer, ("a", "b"))
    for rank, each in enumerate(found):
        own = [f"{task}{place}" for task in "ab" for place in range(rank, 5, number)]
        assert each == [*own, own[-1]]
    assert sorted(asked_for) == sorted([*range(5)] * 2)


def test_an_attack_may_take_its_part_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(rank: int, task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str | None]:
        assert [each.doc["n"] for each in group] == [0, 1, 2, 3, 4]
        return [f"{each.doc['n']} by {rank}" if (each.doc["n"] < 4) == (rank == 1) else None for each in group]

    found = answered(monkeypatch, 2, answer, ("a",), Sharing(by_attack=True))
    assert found == [["0 by 1", "2 by 1", "4 by 0", "4 by 0"], ["1 by 1", "3 by 1", "3 by 1"]]


def test_what_one_process_cannot_answer_no_process_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(dispatch.log, "warning", lambda text, *words: warned.append(text % words))

    def answer(rank: int, task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str]:
        if rank == 1 and task_settings["task"] == "a":
            raise TargetError("it cannot")
        return ["fine"] * len(group)

    found = answered(monkeypatch, 2, answer, ("a", "b"))
    reasons = [[json.loads(each)["unanswered"] for each in own if each != "fine"] for own in found]
    assert reasons == [["another process could not answer: see its warning"] * 3, ["it cannot"] * 2]
    assert [own.count("fine") for own in found] == [4, 3]
    assert warned == ["leakage: a is null: it cannot"]


def test_an_error_of_one_process_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "BEAT", 0.02)

    def answer(rank: int, task_settings: Mapping[str, Any], group: Sequence[Instance]) -> list[str]:
        if rank == 2:
            raise TargetError("it cannot")
        return ["fine"] * len(group)

    first, second, third = answered(monkeypatch, 3, answer, ("must",))
    assert isinstance(third, TargetError)
    assert {str(first), str(second)} == {"process 2 of 3 ended the run: it cannot"}
    assert isinstance(first, ProcessLost)
