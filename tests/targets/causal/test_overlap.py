"""Passes that a device computes while the attacks of the last pass continue. A GPU is simulated on the CPU."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from unittest import mock

import pytest

from benchmarks.operations import ATTACKS, canaries_of
from benchmarks.small_models import harness_model
from leakage_tasks.attacks import run_attack
from leakage_tasks.targets import devices
from leakage_tasks.targets.harness.target import as_target
from leakage_tasks.targets.pass_rows import PassRows


class LateCopy(devices.HostCopy):
    """A copy that arrives only when it is waited for; ``events`` says which copy was begun or read, in order."""

    events: list[str] = []

    def __init__(self, tensor: Any) -> None:
        self._late, self._copied = tensor.clone(), None
        self.events.append("begun")

    def array(self) -> Any:
        self.events.append("read")
        return self._late.numpy()


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_findings_are_those_of_passes_in_turn(name: str) -> None:
    attack, goal = ATTACKS["canary_exposure"]
    canaries = canaries_of(12, name == "t5", 1)

    def findings() -> list[Any]:
        target = as_target(harness_model(name, 64, "cpu"))
        target.pass_rows.batch_size, target.pass_rows.limit.most = None, 6
        found = run_attack(attack, target, canaries, goal=goal, budget=100)
        return [{**asdict(finding), "seconds": 0, "settings": None} for finding in found]

    in_turn = findings()
    LateCopy.events.clear()
    with (
        mock.patch.object(PassRows, "overlaps", True),
        mock.patch("leakage_tasks.targets.causal.reader.HostCopy", LateCopy),
    ):
        overlapped = findings()
    pairs = list(zip(LateCopy.events, LateCopy.events[1:], strict=False))
    assert pairs.count(("begun", "begun")) >= 3
    for one, other in zip(overlapped, in_turn, strict=True):
        assert (one["rank"], one["model_calls"]) == (other["rank"], other["model_calls"])
        assert one["log_perplexity"] == pytest.approx(other["log_perplexity"], abs=1e-3)
        assert [guess["filling"] for guess in one["guesses"]] == [guess["filling"] for guess in other["guesses"]]
