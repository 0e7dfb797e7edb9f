"""Tests on blind scores of sets that do not differ: their p-values err in 5 % of runs or less."""

from __future__ import annotations

import numpy as np
import pytest

from leakage_tasks.attacks.membership.blind.scores import blind_scores
from leakage_tasks.stats import auc_comparison, dataset_inference
from leakage_tasks.stats.auc_comparison import compare_with_blind, cross_validation_spread
from leakage_tasks.stats.dataset_inference import dataset_test
from tests.attacks.membership.blind.made_texts import made_sets

NUMBER = 40
MEMBERS = [True] * NUMBER + [False] * NUMBER


@pytest.mark.slow
def test_blind_baselines_of_equal_sets_are_above_chance_in_5_percent_of_runs_or_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """200 runs: at most 5 % and two standard errors. One split without the correction would exceed that."""
    monkeypatch.setattr(auc_comparison, "RESAMPLES", 400)
    monkeypatch.setattr(dataset_inference, "PERMUTATIONS", 99)
    most, attack = 0.05 + 2 * (0.05 * 0.95 / 200) ** 0.5, np.zeros(2 * NUMBER)
    above, inferred, uncorrected = 0, 0, 0
    for seed in range(200):
        blind = blind_scores(made_sets(NUMBER, seed), MEMBERS)
        above += compare_with_blind({"loss": attack}, blind, MEMBERS, range(2 * NUMBER))["loss"].blind_p <= 0.05
        tested = [*blind.values()], MEMBERS, range(2 * NUMBER)
        inferred += dataset_test(*tested, splits=9, spread=cross_validation_spread()).welch <= 0.05
        uncorrected += dataset_test(*tested, splits=1).welch <= 0.05
    assert above / 200 <= most
    assert inferred / 200 <= most < uncorrected / 200
