"""That a process hands back what it has freed, and leaves alone what it has not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator

import pytest

from leakage_tasks.targets import freed_memory
from leakage_tasks.targets.freed_memory import GROWN, FreedMemory

GNU = hasattr(ctypes.CDLL(None), "malloc_trim") if sys.platform == "linux" else False
MIB = 1 << 20


class Process:
    """A process of sizes that the test says."""

    def __init__(self, sizes: list[int]) -> None:
        self._sizes: Iterator[int] = iter(sizes)

    def memory_info(self) -> Process:
        """The next size."""
        self.rss = next(self._sizes)
        return self


def trims(monkeypatch: pytest.MonkeyPatch, sizes: list[int]) -> list[int]:
    """At which of some looks at a process of these ``sizes`` memory is handed back."""
    found: list[int] = []
    monkeypatch.setattr(freed_memory, "PAUSE", 0.0)
    watch = FreedMemory()
    watch._process = Process(sizes)  # type: ignore[assignment]
    for place in range(len(sizes)):
        watch._trim = lambda _, place=place: found.append(place) or 1  # type: ignore[misc]
        watch.look()
    return found


def test_growth_is_handed_back_once_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = 100 * MIB, 100 * MIB + 2 * GROWN
    assert trims(monkeypatch, [small, small + GROWN, large, small, small]) == [2]


def test_what_a_pass_takes_again_is_not_handed_back_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = 100 * MIB, 100 * MIB + 2 * GROWN
    assert trims(monkeypatch, [before, after, after, after, after]) == [1]


def test_looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed_memory, "PAUSE", 60.0)
    watch = FreedMemory()
    watch._process = Process([MIB])  # type: ignore[assignment]
    for _ in range(50):
        # A second one would find no size.
        watch.look()


def test_systems_without_the_call_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    watch = FreedMemory()
    watch._process = Process([])  # type: ignore[assignment]
    watch.look()


FRAGMENTED = """
import psutil, torch
from leakage_tasks.targets import freed_memory
freed_memory.PAUSE = 0.0
watch = freed_memory.FreedMemory()
watch.look()
process = psutil.Process()
large, small = [], []
for _ in range(4000):
    large.append(torch.ones(25_000))
    small.append(torch.ones(50))
size = process.memory_info().rss
del large
watch.look()
print(size - process.memory_info().rss)
"""


@pytest.mark.skipif(not GNU, reason="needs GNU's C library")
def test_room_between_live_tensors_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 300 * MIB
