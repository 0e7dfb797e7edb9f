"""A trial with DP-SGD spends the ε that Opacus' own accountant makes of its rows, batches and steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from opacus.accountants import RDPAccountant
from opacus.accountants.utils import get_noise_multiplier

from leakage_tasks.research.framework.registry import StudyPlan
from leakage_tasks.research.mix_and_match.extension_trials import extended, run


@pytest.mark.slow
def test_epsilon_is_what_opacus_accounts_for(tmp_path: Path) -> None:
    (config,) = extended(StudyPlan("smoke"), 8.0)
    found = run(config, tmp_path)
    # Each of the fourteen canaries has one copy, and so takes one row more.
    rows = config["ground"]["samples"] + 14 * config["repetitions"]
    rate, delta = config["ground"]["batch_size"] / rows, 1 / (10 * rows)
    steps = config["ground"]["epochs"] * round(1 / rate)
    asked = {"target_epsilon": 8.0, "target_delta": delta, "sample_rate": rate, "steps": steps}
    accountant = RDPAccountant()
    for _ in range(steps):
        accountant.step(noise_multiplier=get_noise_multiplier(**asked, accountant="rdp"), sample_rate=rate)
    assert found["epsilon"] == pytest.approx(accountant.get_epsilon(delta), abs=0.02)
    assert len(found["ranks"]) == 14
    assert set(next(iter(found["ranks"].values()))) == {"exhaustive", "pretrained", "frankenstein"}
