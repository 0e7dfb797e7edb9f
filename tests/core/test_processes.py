"""What processes tell each other; here they are threads that share a store in memory."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch.distributed as dist

from leakage_tasks.core import processes
from leakage_tasks.core.processes import Processes, ProcessLost


def run(number: int, act: Callable[[Processes], Any]) -> list[Any]:
    """What each of some processes comes to, an error as itself."""
    store, found = dist.HashStore(), [None] * number

    def one(rank: int) -> None:
        try:
            found[rank] = act(Processes(store, rank, number))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_each_learns_what_each_says() -> None:
    def act(own: Processes) -> Any:
        with own.call():
            first = own.exchange("a", f"I am {own.rank}")
            return first, own.exchange("a" if own.part else "b", str(own.rank + 10))

    assert run(3, act) == [(["I am 0", "I am 1", "I am 2"], ["10", "11", "12"])] * 3


def test_a_count_is_of_all_and_of_one_call_and_part_alone() -> None:
    def act(own: Processes) -> Any:
        found = []
        for part in ("0", "1"):
            with own.call():
                own.part = part
                own.count("n", own.rank + 1)
                own.exchange("met", "")
                found.append(own.count("n", 0))
        return found

    assert run(3, act) == [[6, 6]] * 3


def test_an_error_of_one_ends_all_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "BEAT", 0.02)

    def act(own: Processes) -> Any:
        with own.call():
            if own.rank == 1:
                raise ValueError("the disk is full.\nmore")
            own.exchange("a", "")

    first, second, third = run(3, act)
    assert isinstance(second, ValueError)
    assert {str(first), str(third)} == {"process 1 of 3 ended the run: the disk is full"}
    assert isinstance(first, ProcessLost)


def test_one_that_gives_no_sign_of_life_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEAT", 0.02), ("SILENT", 0.5)):
        monkeypatch.setattr(processes, name, seconds)
    killed = threading.Event()
    live = Processes._send_heartbeats

    def dies(self: Processes, done: threading.Event) -> None:
        """Signs of life that end as a killed process' do."""
        if self.rank == 1:
            self._store.set("alive/1", "last")
            killed.wait(20)
        else:
            live(self, done)

    monkeypatch.setattr(Processes, "_send_heartbeats", dies)

    def act(own: Processes) -> Any:
        with own.call():
            if own.rank == 1:
                killed.wait(20)
            started = time.monotonic()
            try:
                own.exchange("a", "")
            finally:
                killed.set()
                assert time.monotonic() - started < 10

    found = run(2, act)
    assert "process 1 of 2 gave no sign of life" in str(found[0])


def test_one_that_is_between_two_calls_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEAT", 0.02), ("SILENT", 0.3)):
        monkeypatch.setattr(processes, name, seconds)

    def act(own: Processes) -> Any:
        for call in range(2):
            if own.rank == 1 and call:
                time.sleep(1)
            with own.call():
                found = own.exchange("a", str(call))
        return found

    assert run(2, act) == [["1", "1"]] * 2


def test_what_all_have_read_is_gone() -> None:
    store = dist.HashStore()
    meeting = threading.Barrier(2)

    def one(rank: int) -> None:
        own = Processes(store, rank, 2)
        with own.call():
            own.exchange("a", "long")
            meeting.wait(10)

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not store.check(["1//a/0"])
    assert not store.check(["1//a/1"])


def test_alone_there_are_no_others() -> None:
    assert processes.launched() is None
