"""Figures with their intervals."""

import statistics

from leakage_tasks.research.framework.report import Measured


def test_no_interval_reaches_beyond_what_is_possible():
    found = Measured.mean([1, 4_000], most=5_000)
    assert found.high == 5_000
    assert found.low is not None
    assert found.low < found.value


def test_a_mean_over_seeds_tells_its_deviation():
    values = [0.4, 0.5, 0.7]
    found = Measured.over_seeds(values)
    assert found.sd is not None
    assert abs(found.sd - statistics.stdev(values)) < 1e-12
    assert (found.low, found.high) == (Measured.mean(values).low, Measured.mean(values).high)
    assert Measured.over_seeds([0.4]).sd is None
