"""That a process hands back what it has freed, and leaves alone what it has not."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from leakage_tasks.targets import memory
from leakage_tasks.targets.memory import GROWN, FreedMemory

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


def trims(monkeypatch: pytest.MonkeyPatch, looks: int, sizes: list[int]) -> list[int]:
    """At which of so many looks memory is handed back, after which the process is asked for its size once more."""
    found: list[int] = []
    monkeypatch.setattr(memory, "PAUSE", 0.0)
    monkeypatch.setattr(memory, "BUSY", float("inf"))
    watch = FreedMemory()
    watch._process = Process(sizes)  # type: ignore[assignment]
    for place in range(looks):
        watch._trim = lambda _, place=place: found.append(place) or 1  # type: ignore[misc]
        watch.return_if_grown()
    return found


def test_growth_is_handed_back_once_it_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = 100 * MIB, 100 * MIB + 2 * GROWN
    assert trims(monkeypatch, 5, [small, small + GROWN, large, small, small, small]) == [2]


def test_growth_counts_from_what_was_left_after_handing_back(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = 100 * MIB, 100 * MIB + 2 * GROWN
    assert trims(monkeypatch, 4, [small, large, small, large, small, small]) == [1, 2]
    assert trims(monkeypatch, 4, [small, large, large, large, large]) == [1]


def test_handing_back_takes_a_small_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 3.0, 42.0, 43.1, 43.2])
    monkeypatch.setattr(memory, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    small, large = 100 * MIB, 100 * MIB + 2 * GROWN
    found: list[int] = []
    watch = FreedMemory()
    watch._process = Process([small, large, small, large, small])  # type: ignore[assignment]
    for place in range(4):
        watch._trim = lambda _, place=place: found.append(place) or 1  # type: ignore[misc]
        watch.return_if_grown()
    # It took from second 1 to 3, and may not take a twentieth of the time before second 43.
    assert found == [1, 3]


def test_looks_are_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "PAUSE", 60.0)
    watch = FreedMemory()
    watch._process = Process([MIB])  # type: ignore[assignment]
    for _ in range(50):
        # A second one would find no size.
        watch.return_if_grown()


def test_systems_without_the_call_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    watch = FreedMemory()
    watch._process = Process([])  # type: ignore[assignment]
    watch.return_if_grown()


FRAGMENTED = """
import psutil, torch
from leakage_tasks.targets import memory
memory.PAUSE = 0.0
watch = memory.FreedMemory()
watch.return_if_grown()
process = psutil.Process()
large, small = [], []
for _ in range(4000):
    large.append(torch.ones(25_000))
    small.append(torch.ones(50))
size = process.memory_info().rss
del large
watch.return_if_grown()
print(size - process.memory_info().rss)
"""


@pytest.mark.slow
@pytest.mark.skipif(not GNU, reason="needs GNU's C library")
def test_room_between_live_tensors_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", FRAGMENTED], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 300 * MIB
