"""Figures with their intervals."""

from leakage_tasks.studies.report import Measured


def test_no_interval_reaches_beyond_what_is_possible():
    found = Measured.mean([1, 4_000], most=5_000)
    assert found.high == 5_000
    assert found.low is not None
    assert found.low < found.value
