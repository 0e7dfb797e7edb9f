"""Whether the interval of an estimated rank holds the true one as often as it says: a thinned grid.

``benchmarks/coverage.py`` runs the whole of it.
"""

import math

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import run_attack
from tests.attacks.made_up import MODELS, MadeUp, Ranks

SECRETS = 30
LENGTHS = (4, 9, 25)
CELLS = [(model, length) for model in MODELS for length in LENGTHS]


@pytest.fixture(scope="module")
def grid():
    """By model and length, what was found of secrets of ranks from 1 to |R|, with their true ranks."""
    found = {}
    for model, length in CELLS:
        target, stream = MadeUp(model, length), np.random.default_rng(length)
        ranks = Ranks(target)
        for n in range(SECRETS):
            canary, rank = ranks.near((n + 0.5) / SECRETS * length * math.log2(10), f"{model}{n}", stream)
            each = run_attack("exposure", target, [canary], values={"method": "estimated"})[0]
            found.setdefault((model, length), []).append((rank, each))
    return found


def misses(found):
    # Ranks are floats up to 10^25, and the last digits of a sum are no miss.
    below = sum(rank < each.rank_low * (1 - 1e-9) for rank, each in found)
    above = sum(rank > each.rank_high * (1 + 1e-9) for rank, each in found)
    return below + above


@pytest.mark.slow
def test_the_interval_holds_the_rank_at_its_level(grid):
    every = [pair for found in grid.values() for pair in found]
    assert stats.binomtest(len(every) - misses(every), len(every), 0.95, alternative="less").pvalue > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_the_interval_holds_the_rank_in_every_cell(grid, cell):
    # Fewer than 24 of 30 come in one run of 600 at 95 %: one in 50 that any of twelve cells fails.
    assert misses(grid[cell]) <= 6


@pytest.mark.slow
def test_estimates_are_right_in_the_mean(grid):
    ratios = [each.rank / rank for found in grid.values() for rank, each in found if each.method == "estimated"]
    error = np.std(ratios, ddof=1) / math.sqrt(len(ratios))
    assert np.mean(ratios) == pytest.approx(1, abs=2.6 * error)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_secrets_that_no_model_saw_are_at_chance(model):
    target = MadeUp(model, 16)
    canaries = [
        Ranks.random(ranks, f"c{n}", stream)[0]
        for ranks, stream in [(Ranks(target), np.random.default_rng(3))]
        for n in range(60)
    ]
    found = run_attack("exposure", target, canaries, budget=4000)
    assert stats.kstest([2.0**-each.exposure for each in found], "uniform").pvalue > 0.01
