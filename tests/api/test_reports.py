"""Exposure of plain arrays, against its definition written out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks import exposure
from leakage_tasks.core.errors import OptionError

COSTS = st.lists(st.integers(0, 20).map(float), min_size=1, max_size=30)


@given(COSTS, COSTS)
def test_it_is_the_log_of_the_size_over_the_rank(costs: list[float], references: list[float]) -> None:
    for cost, bits in zip(costs, exposure(costs, references), strict=True):
        rank = 1 + sum(reference <= cost for reference in references)
        assert bits == pytest.approx(math.log2(len(references) + 1) - math.log2(rank))


@pytest.mark.parametrize(("costs", "references"), [([1.0], []), ([math.nan], [1.0]), ([1.0], [math.nan])])
def test_what_is_no_number_is_one_line(costs: list[float], references: list[float]) -> None:
    with pytest.raises(OptionError, match="^exposure: "):
        exposure(costs, references)
