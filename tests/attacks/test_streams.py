"""Random numbers by depth and index: uniform, independent, and the same whatever else is drawn."""

import hashlib

import numpy as np
import pytest
from scipy import stats

from leakage_tasks.attacks.arithmetic import ARITHMETIC
from leakage_tasks.attacks.streams import GOLDEN, UniformNumbers


def test_numbers_do_not_depend_on_what_else_is_drawn():
    whole, part = UniformNumbers([("a", range(100))]), UniformNumbers([("b", range(3)), ("a", range(40, 60))])
    for depth in (7, 0, -1, 1):
        assert part.at(depth)[3:].tolist() == whole.at(depth)[40:60].tolist()


def test_numbers_are_the_sequence_of_splitmix64_from_their_seed_and_depth():
    """The generator of Steele, Lea and Flood, written with Python's integers."""

    def mixed(bits):
        bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 % 2**64
        bits = (bits ^ bits >> 27) * 0x94D049BB133111EB % 2**64
        return bits ^ bits >> 31

    # The first number of the published sequence that starts from 0.
    assert mixed(GOLDEN) == 0xE220A8397B1DCDAF
    key = int.from_bytes(hashlib.sha256(b"a").digest()[:8], "big")
    for depth in (-1, 0, 5):
        state = mixed((key + depth * GOLDEN) % 2**64)
        expected = [(mixed((state + n * GOLDEN) % 2**64) >> 11) / 2**53 for n in range(2, 8)]
        assert UniformNumbers([("a", range(2, 8))]).at(depth).tolist() == expected


@pytest.mark.parametrize("other", [("a", 1), ("a", -1), ("b", 0), ("a", 9)])
def test_numbers_of_other_depths_and_seeds_are_independent(other):
    seed, depth = other
    one, two = (UniformNumbers([(name, range(20_000))]).at(at) for name, at in (("a", 0), (seed, depth)))
    cells, _, _ = np.histogram2d(one, two, bins=8, range=[[0, 1], [0, 1]])
    assert stats.chisquare(cells.ravel()).pvalue > 1e-4


def test_the_version_of_the_arithmetic_has_these_numbers():
    # Other numbers need a new version: findings that were stored with these numbers must not be reused.
    numbers = [round(float(number), 6) for depth in (0, 3) for number in UniformNumbers([("a", range(2))]).at(depth)]
    assert (ARITHMETIC, numbers) == (8, [0.565354, 0.923049, 0.125774, 0.924674])
