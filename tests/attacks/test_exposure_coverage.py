"""Whether the 95 % interval of an estimated rank holds the true one as often as it says."""

import itertools

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks import run_attack
from tests.attacks.tables import Table

SEEDS = 25
BANDS = {"1": (1,), "2 to 9": (2, 5), "10 to 99": (10, 50), "100 to |R|/2": (100, 200, 330, 400, 500)}
"""Ranks among 1,000 fillings."""


def lopsided() -> Table:
    """One path a hundred times likelier than all others at each digit, as of a secret that was learnt by heart."""
    table = Table.random(3, 11, 0.7)
    for depth, level in enumerate(table.levels):
        mass = np.exp2(-level)
        mass[0, 7 if depth == 0 else 0] *= 0.01
        mass[0, 0] = 100.0
        table.levels[depth] = -np.log2(mass / mass.sum(axis=1, keepdims=True))
    return table


@pytest.fixture(scope="module")
def covered() -> dict[int, list[bool]]:
    """By rank, whether each of 1,000 estimates' intervals holds it: 4 models, 10 ranks, 25 seeds."""
    found: dict[int, list[bool]] = {}
    # Equal seeds draw alike on all models, and the estimates would not be independent.
    seeds = itertools.count()
    for table in (Table.random(3, 7, 0.3), Table.random(3, 8, 2.0), Table.random(3, 9, 8.0), lopsided()):
        for rank in (rank for band in BANDS.values() for rank in band):
            for seed in itertools.islice(seeds, SEEDS):
                options = {"budget": 100, "seed": seed, "settings": {"method": "estimated"}}
                each = run_attack("exposure", table, [table.ranked(rank)], **options)[0]
                found.setdefault(rank, []).append(each.rank_low <= rank <= each.rank_high)
    return found


def shortfall(hits: list[bool]) -> float:
    """p of so few hits, or fewer, where each has 95 %."""
    return float(stats.binomtest(sum(hits), len(hits), 0.95, alternative="less").pvalue)


def test_the_interval_covers_the_rank_at_its_level(covered: dict[int, list[bool]]):
    every = [hit for hits in covered.values() for hit in hits]
    assert len(every) == 1000
    assert shortfall(every) > 0.01


@pytest.mark.parametrize("band", BANDS)
def test_the_interval_covers_the_rank_at_its_level_in_each_band(covered: dict[int, list[bool]], band: str):
    assert shortfall([hit for rank in BANDS[band] for hit in covered[rank]]) > 0.01
