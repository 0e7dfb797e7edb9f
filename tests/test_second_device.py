"""The second device itself, and how often a run waits for it. In a process of its own, which cannot undo the device."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.usefixtures("warm_python")
MIXED = """
import torch
from tests.second_device import DEVICE, SecondDevice

with SecondDevice():
    here, there = torch.ones(3), torch.ones(3).to(DEVICE)
    for mixed in (lambda: here + there, lambda: torch.cat([there, here]), lambda: here[there.long()], there.numpy):
        try:
            mixed()
        except (RuntimeError, TypeError) as error:
            print(type(error).__name__)
    SecondDevice.waits.clear()
    assert (there * 2 + torch.tensor(1.0))[torch.tensor([0, 2])].cpu().tolist() == [3.0, 3.0]
    assert bool(there.any()) and there.sum().item() == 3 and there.tolist() == [1, 1, 1]
    print(dict(SecondDevice.waits))
"""
RUN = """
import torch
from benchmarks.operations import ATTACKS, canaries_of
from benchmarks.small_models import harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.targets.harness.target import as_target
from tests.second_device import DEVICE, SecondDevice

with SecondDevice():
    for attack, goal in ATTACKS.values():
        lm = harness_model("llama", 64, "cpu")
        lm._model, lm._device = lm.model.to(DEVICE), torch.device(DEVICE, 0)
        target = as_target(lm)
        run_attack(attack, target, canaries_of(2, source=False, seed=2), goal=goal, budget=200)
        passes = []
        hook = lm.model.register_forward_hook(lambda *_: passes.append(1))
        SecondDevice.waits.clear()
        run_attack(attack, target, canaries_of(20, source=False), goal=goal, budget=200)
        print(len(passes), SecondDevice.waits.total())
"""


def printed(script: str) -> list[str]:
    """What a script prints in a new process."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_tensors_of_two_devices_are_an_error() -> None:
    *errors, waits = printed(MIXED)
    assert errors == ["RuntimeError", "RuntimeError", "RuntimeError", "TypeError"]
    assert waits == "{'_to_copy': 2, '_local_scalar_dense': 2}"


def test_the_host_waits_once_a_pass() -> None:
    for line in printed(RUN):
        passes, waits = map(int, line.split())
        assert passes > 10
        # Each pass copies the costs once; the first one, over the text before the secret, also those of its tokens.
        assert passes <= waits <= passes + 1
