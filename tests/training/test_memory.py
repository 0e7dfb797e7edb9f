"""How much memory there is, against what the system says, and torch's failures to get more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from leakage_tasks.core.errors import LeakageError
from leakage_tasks.training.memory import allocations_told, memory_of

MEMORY = Path("/proc/meminfo")
CPU = torch.device("cpu")


@pytest.mark.skipif(not MEMORY.is_file(), reason="Linux tells it there")
def test_a_cpu_has_the_machine_s_memory():
    kilobytes = int(re.search(r"MemTotal: *(\d+) kB", MEMORY.read_text())[1])
    assert memory_of(CPU) == pytest.approx(kilobytes * 1024, rel=0.01)


def test_where_the_system_does_not_tell_there_is_no_end_of_it(monkeypatch):
    monkeypatch.delattr("os.sysconf_names")
    assert memory_of(CPU) == float("inf")


def test_a_gpu_has_what_is_free_and_what_torch_holds_unused(monkeypatch):
    for name, told in (("mem_get_info", (500, 1000)), ("memory_reserved", 300), ("memory_allocated", 200)):
        monkeypatch.setattr(torch.cuda, name, lambda _, told=told: told)
    assert memory_of(torch.device("cuda")) == 600


@pytest.mark.parametrize("sizes", [(10**14,), (1000, 10**18)], ids=["too much", "beyond all numbers"])
def test_what_torch_cannot_allocate_is_one_line(sizes):
    with pytest.raises(LeakageError, match=r"^out of memory \(.+\): ask for less$"), allocations_told("ask for less"):
        torch.empty(sizes)


def test_a_gpu_without_memory_is_one_line():
    with pytest.raises(LeakageError, match=r"^out of memory \(no room\): less$"), allocations_told("less"):
        raise torch.OutOfMemoryError("no room\nmore of it")


def test_other_failures_are_left_as_they_are():
    with pytest.raises(RuntimeError, match="another") as caught, allocations_told("less"):
        raise RuntimeError("another")
    assert type(caught.value) is RuntimeError
