"""Random numbers by depth and index: uniform, independent, and the same whatever else is drawn."""

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.streams import UniformNumbers


def test_numbers_do_not_depend_on_what_else_is_drawn():
    whole, part = UniformNumbers("a"), UniformNumbers("a")
    numbers = {depth: whole.at(depth, range(100)) for depth in (-1, 0, 1, 7)}
    for depth in (7, 0, -1, 1):
        assert part.at(depth, range(40, 60)).tolist() == numbers[depth][40:60].tolist()


@pytest.mark.parametrize("other", [("a", 1), ("a", -1), ("b", 0), ("a", 9)])
def test_numbers_of_other_depths_and_seeds_are_independent(other):
    seed, depth = other
    one, two = (UniformNumbers(name).at(at, range(20_000)) for name, at in (("a", 0), (seed, depth)))
    cells, _, _ = np.histogram2d(one, two, bins=8, range=[[0, 1], [0, 1]])
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4
