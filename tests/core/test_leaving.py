"""How one of several processes ends: in order, even where a thread of gloo still holds a tensor as Python ends.

Without that, five of six runs of this test fail: what threads do cannot be told exactly from outside.
"""

from __future__ import annotations

import os
import sys

import pytest
import torch.distributed as dist

from leakage_tasks.core import processes
from tests.conftest import ROOT
from tests.launched import start_ranks

SCRIPT = """
import os, sys, time
from types import SimpleNamespace
import torch
import torch.distributed as dist

torch.set_num_threads(1)
if sys.argv[1] == "model":
    from adapters.base import LocalLM

    LocalLM._join_processes(SimpleNamespace(), "cpu")
else:
    from accelerate import Accelerator
    from leakage_tasks.core.processes import launched

    Accelerator(), launched()
dist.barrier()
others = [int(name) for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]
late = dist.get_rank() == 1
if late:
    # Its other threads get the processor only where the main one leaves it to them, until the call has returned.
    for thread in (os.getpid(), *others):
        os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
    for thread in others:
        os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))
    sys.setswitchinterval(1000)
dist.gather(torch.ones(1), None if late else [torch.ones(1), torch.ones(1)], dst=0)
if late:
    # Then they wait for Python's lock, which is not given up before Python ends.
    for thread in others:
        os.sched_setscheduler(thread, os.SCHED_OTHER, os.sched_param(0))
    until = time.perf_counter() + 1
    while time.perf_counter() < until:
        pass
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="threads cannot be told to wait here")
@pytest.mark.parametrize("who_meets", ["task", "model"])
def test_a_thread_that_lets_go_late_does_not_abort_the_process(who_meets: str) -> None:
    environment = {**os.environ, "ACCELERATE_USE_CPU": "true"}
    begun = start_ranks([sys.executable, "-c", SCRIPT, who_meets], 2, ROOT, environment)
    said = [process.communicate(timeout=120)[1] for process in begun]
    assert [process.returncode for process in begun] == [0, 0], said


@pytest.mark.parametrize(("backend", "left"), [("gloo", 1), ("nccl", 0), (None, 0)])
def test_only_a_group_of_gloo_that_is_still_there_is_left(
    monkeypatch: pytest.MonkeyPatch, backend: str | None, left: int
) -> None:
    """None: the script has left it already."""
    calls: list[None] = []
    monkeypatch.setattr(dist, "is_initialized", lambda: backend is not None)
    monkeypatch.setattr(dist, "get_backend", lambda: backend)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append(None))
    processes._leave()
    assert len(calls) == left
