"""How one of several processes ends: in order, even where a thread of gloo still holds a tensor as Python ends.

Without that, five of six runs of this test fail: what threads do cannot be told exactly from outside.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.launched import free_port

SCRIPT = """
import os, sys, time
from types import SimpleNamespace
import torch
import torch.distributed as dist
from accelerate import Accelerator
from adapters.base import LocalLM
from leakage_tasks.core.processes import launched

torch.set_num_threads(1)
own = SimpleNamespace()
LocalLM._join_processes(own, "cpu") if sys.argv[1] == "model" else (Accelerator(), launched())
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


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="threads cannot be told to wait here")
@pytest.mark.parametrize("who_meets", ["task", "model"])
def test_a_thread_that_lets_go_late_does_not_abort_the_process(who_meets: str) -> None:
    settings = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, "-c", SCRIPT, who_meets]
    begun = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **settings, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [process.communicate(timeout=120)[1] for process in begun]
    assert [process.returncode for process in begun] == [0, 0], said
