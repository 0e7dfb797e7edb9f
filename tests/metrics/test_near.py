"""Metrics of near-verbatim extraction, each formula a second way."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from scipy import optimize, stats

from leakage_tasks.metrics.near import near_rows
from leakage_tasks.stats.clusters import clustered_mean
from leakage_tasks.stats.intervals import clopper_pearson
from tests.drawn import reading
from tests.metrics.test_metrics import table

DRAWS = (1, 10, 1000)
ROWS = near_rows(DRAWS)
BOUNDS = [(1.0, 0.5), (4.0, 3.0), (9.0, 1.0), (None, 8.0), (None, None)]
"""Bits of the lower and of the upper bound of each pair."""
HITS = [22, 0, 0, 0, 0]
"""Near-verbatim draws of 40."""
READINGS = [
    reading(pair, near_edits=2, near_bits=low, near_high_bits=high, near_hits=hits, samples=40)
    for pair, ((low, high), hits) in enumerate(zip(BOUNDS, HITS, strict=True))
]


def probabilities(end: int) -> list[float]:
    return [0.0 if bits[end] is None else 2 ** -bits[end] for bits in BOUNDS]


def ends() -> list[float]:
    """The upper bound or, if that is less, the upper end of the share of draws by a root of the binomial."""
    sampled = [optimize.brentq(lambda p, hits=hits: stats.binom.cdf(hits, 40, p) - 0.025, 1e-9, 1) for hits in HITS]
    return [min(pair) for pair in zip(probabilities(1), sampled, strict=True)]


def test_means_of_bounds_and_an_interval_around_both() -> None:
    found = table(ROWS, READINGS)
    low, high = probabilities(0), probabilities(1)
    assert found["p_near"] == pytest.approx(statistics.fmean(low))
    assert found["p_near_high"] == pytest.approx(statistics.fmean(high))
    assert found["p_near_ci_low"] == pytest.approx(clustered_mean(low, range(5), 0, 1)[0])
    assert found["p_near_ci_high"] == pytest.approx(clustered_mean(ends(), range(5), 0, 1)[1])


@pytest.mark.parametrize("draws", DRAWS)
def test_discoverable_by_the_lower_bound_and_its_interval_by_both(draws: int) -> None:
    found, name = table(ROWS, READINGS), f"discoverable_near_{draws}"
    low, high = ([1 - (1 - p) ** draws >= 0.5 for p in values] for values in (probabilities(0), ends()))
    assert found[name] == statistics.fmean(low)
    assert found[f"{name}_ci_low"] == pytest.approx(clopper_pearson(sum(low), 5)[0])
    assert found[f"{name}_ci_high"] == pytest.approx(clopper_pearson(sum(high), 5)[1])


def test_suffixes_with_a_draw_near_them_are_counted() -> None:
    found = table(ROWS, READINGS)
    assert found["drawn_near"] == 1 / 5
    assert (found["drawn_near_ci_low"], found["drawn_near_ci_high"]) == pytest.approx(clopper_pearson(1, 5))


def test_equal_pairs_have_an_interval_of_some_width() -> None:
    found = table(ROWS, READINGS[4:] * 20)
    assert found["p_near"] == found["p_near_high"] == found["p_near_ci_low"] == 0
    assert found["p_near_ci_high"] == pytest.approx(clopper_pearson(0, 20)[1])


def test_a_view_has_rows_if_its_bounds_were_computed() -> None:
    def names(**fields: Any) -> list[str]:
        return [row.name for row in ROWS if row.applies(reading(**fields))]

    every = [row.name for row in ROWS]
    assert names() == []
    assert names(near_edits=0, near_hits=0) == every
    assert names(near_edits=0) == [name for name in every if not name.startswith("drawn")]
    assert names(near_edits=1, kind="length") == ["p_near", "p_near_ci_low", "p_near_ci_high", "p_near_high"]
    assert names(near_edits=1, kind="confidence") == names(near_edits=1, kind="draws") == []


def test_both_bounds_are_shown_as_such() -> None:
    declared = {row.name: row.declaration() for row in ROWS}
    assert declared["p_near"]["interval"] == ("p_near_ci_low", "p_near_ci_high")
    assert "lower bound" in declared["p_near"]["description"]
    assert "upper bound" in declared["p_near_high"]["description"]
    assert all("lower bound" in declared[f"discoverable_near_{n}"]["description"] for n in DRAWS)
