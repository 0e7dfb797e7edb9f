"""Random numbers by depth and index: uniform, independent, and the same whatever else is drawn."""

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.arithmetic import ARITHMETIC
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


def test_the_version_of_the_arithmetic_has_these_numbers():
    # Other numbers need a new version: findings that were stored with these numbers must not be reused.
    numbers = [round(float(number), 6) for depth in (0, 3) for number in UniformNumbers("a").at(depth, range(2))]
    assert (ARITHMETIC, numbers) == (6, [0.674273, 0.432311, 0.195675, 0.125323])
