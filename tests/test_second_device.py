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
    errors = {
        "sum": lambda: here + there,
        "cat": lambda: torch.cat([there, here]),
        "index": lambda: here[there.long()],
        "index_put": lambda: there.index_put_((there.long(),), here),
        "sum into a scalar": lambda: torch.tensor(0.0).add_(there.sum()),
        "stack of scalars": lambda: torch.stack([there.sum(), torch.tensor(1.0)]),
        "generator": lambda: torch.rand(3, generator=torch.Generator(), device=there.device),
        "lengths": lambda: torch.nn.utils.rnn.pack_padded_sequence(there[:, None], there[:1].long()),
        "numpy": there.numpy,
    }
    for name, mixed in errors.items():
        try:
            mixed()
            print(name, "is no error")
        except (RuntimeError, TypeError):
            pass
    there[torch.tensor([0])] = torch.tensor(1.0)
    SecondDevice.waits.clear()
    assert (there * 2 + torch.tensor(1.0))[torch.tensor([0, 2])].cpu().tolist() == [3.0, 3.0]
    assert bool(there.any()) and there.sum().item() == 3 and there.tolist() == [1, 1, 1]
    print(dict(SecondDevice.waits))
"""
SELECT = """
import torch
from leakage_tasks.targets.suffix.growing_cache import NoCache
from tests.second_device import DEVICE, SecondDevice

with SecondDevice():
    tokens, rows = torch.tensor([[1, 2], [3, 4], [5, 6]]).to(DEVICE), torch.tensor([2, 0]).to(DEVICE)
    SecondDevice.waits.clear()
    chosen = NoCache(tokens).select(rows)
    print(SecondDevice.waits.total(), chosen.feed().tolist())
"""
RUN = """
import numpy as np, torch
from benchmarks.operations import ATTACKS, canaries_of
from benchmarks.small_models import harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.suffix.decoding_config import DecodingConfig
from leakage_tasks.targets.suffix.target import CausalSuffixes
from tests.second_device import DEVICE, SecondDevice

def counted(model, run):
    passes = []
    hook = model.register_forward_hook(lambda *_: passes.append(1))
    SecondDevice.waits.clear()
    run()
    hook.remove()
    print(len(passes), SecondDevice.waits.total())

with SecondDevice():
    for name in ("llama", "t5"):
        lm = harness_model(name, 64, "cpu")
        lm._model, lm._device = lm.model.to(DEVICE), torch.device(DEVICE, 0)
        target = as_target(lm)
        for attack, goal in ATTACKS.values():
            few, many = (canaries_of(number, name == "t5", seed) for number, seed in ((2, 2), (20, 1)))
            run_attack(attack, target, few, goal=goal, budget=200)
            counted(lm.model, lambda: run_attack(attack, target, many, goal=goal, budget=200))
        if name == "llama":
            draws = np.random.default_rng(0).random((3, 8, 20))
            every = DecodingConfig(temperature=1.0, top_p=1.0)
            counted(lm.model, lambda: CausalSuffixes(target).draw([[5, 6, 7]] * 3, draws, every))
"""


def printed(script: str) -> list[str]:
    """What a script prints in a new process."""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_tensors_of_two_devices_are_an_error() -> None:
    assert printed(MIXED) == ["{'_to_copy': 2, '_local_scalar_dense': 2}"]


def test_rows_of_a_model_without_a_cache_are_chosen_without_a_wait() -> None:
    assert printed(SELECT) == ["0 [[5, 6], [1, 2]]"]


def test_the_host_waits_twice_a_pass_at_most() -> None:
    for line in printed(RUN):
        passes, waits = map(int, line.split())
        # The first pass waits for an empty tensor for each key and value of four layers, self and cross attention.
        assert 10 < passes <= waits <= 2 * passes + 16, line
