"""Gains against figures from elsewhere."""

from __future__ import annotations

import pytest
from scipy import stats

from leakage_tasks.research.framework.gains import cell_difference, cell_excess, cell_value, difference, mean_error
from leakage_tasks.research.framework.report import Measured
from tests.research.stored import stored


def wilson(hits: int, count: int) -> Measured:
    found = stats.binomtest(hits, count).proportion_ci(method="wilson")
    return Measured(hits / count, found.low, found.high, count)


def test_a_difference_of_rates_is_newcombes() -> None:
    """The example of Newcombe (1998), method 10: 56 of 70 against 48 of 80."""
    found = difference(wilson(56, 70), wilson(48, 80))
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_a_difference_without_an_interval_has_none() -> None:
    assert difference(Measured(2.0, None, None, 1), Measured(1.0, 0.5, 1.5, 3)) == Measured(1.0, None, None, 1)


def test_cells_are_found_by_parts_of_their_texts() -> None:
    rows = [
        {"model": "plain", "right": {"value": 0.5, "low": 0.4, "high": 0.6, "count": 9, "sd": None}},
        {"model": "ours, tuned", "right": {"value": 0.75, "low": 0.75, "high": 0.75, "count": 9, "sd": None}},
    ]
    gain = cell_difference({"model": "tuned"}, "right", {"model": "plain"})
    assert gain(stored(rows=rows)) == Measured(0.25, pytest.approx(0.15), pytest.approx(0.35), 9)
    assert cell_difference({"model": "none"}, "right", {"model": "plain"})(stored(rows=rows)) is None


def test_a_row_of_the_very_text_goes_before_one_that_holds_it() -> None:
    rows = [
        {"way": way, "right": {"value": value, "low": value, "high": value, "count": 9, "sd": None}}
        for way, value in (("softmax, one start", 0.5), ("softmax", 0.25), ("softmax, finished", 0.125))
    ]
    assert stored(rows=rows).cell({"way": "softmax"}, "right").value == 0.25
    assert stored(rows=rows).cell({"way": "finished"}, "right").value == 0.125


def test_a_cell_that_is_a_gain_is_taken_as_it_is() -> None:
    rows = [{"model": "ours", "gained": {"value": 0.5, "low": 0.4, "high": 0.6, "count": 9, "sd": None}}]
    assert cell_value({"model": "ours"}, "gained")(stored(rows=rows)) == Measured(0.5, 0.4, 0.6, 9)
    assert cell_value({"model": "theirs"}, "gained")(stored(rows=rows)) is None


def test_a_cell_is_held_against_a_number_beside_it() -> None:
    kept = {"value": 0.5, "low": 0.4, "high": 0.6, "count": 9, "sd": None}
    rows = [{"model": "ours", "kept": kept, "chance": 0.125}, {"model": "theirs", "kept": kept, "chance": None}]
    found = cell_excess({"model": "ours"}, "kept", "chance")(stored(rows=rows))
    assert found == Measured(0.375, pytest.approx(0.275), pytest.approx(0.475), 9)
    assert cell_excess({"model": "theirs"}, "kept", "chance")(stored(rows=rows)) is None


def test_errors_are_means_over_seeds() -> None:
    rows = [
        {"seed": 0, "exact": 10.0, "ours": 10.0, "theirs": 12.0},
        {"seed": 0, "exact": 10.0, "ours": 11.0, "theirs": 11.0},
        {"seed": 1, "exact": 10.0, "ours": 9.0, "theirs": 7.0},
        {"seed": 1, "exact": 10.0, "ours": 9.0, "theirs": "≥ 7"},
    ]
    found = mean_error("ours", "exact", "theirs")(stored(rows=rows))
    low, high = stats.t.interval(0.95, 1, 1.5, stats.sem([1.0, 2.0]))
    assert found == Measured(pytest.approx(1.5), pytest.approx(low), pytest.approx(high), 2)
