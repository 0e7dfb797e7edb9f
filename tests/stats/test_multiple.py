"""Holm's correction against the closed test it is a shortcut for."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakage_tasks.stats.multiple import holm


def closed_test(p_values: list[float]) -> list[float]:
    """A hypothesis falls where every set of hypotheses with it does, each by Bonferroni."""
    indices = range(len(p_values))
    sets = [chosen for size in range(1, len(p_values) + 1) for chosen in combinations(indices, size)]
    by_set = {chosen: min(1.0, len(chosen) * min(p_values[index] for index in chosen)) for chosen in sets}
    return [max(p for chosen, p in by_set.items() if index in chosen) for index in indices]


@given(st.lists(st.sampled_from([0.0, 0.001, 0.004, 0.01, 0.02, 0.02, 0.04, 0.3, 1.0]), max_size=7))
def test_holm_is_the_closed_test(p_values: list[float]) -> None:
    assert holm(p_values) == pytest.approx(closed_test(p_values))
