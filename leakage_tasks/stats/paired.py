"""Paired comparisons of canaries before and after a change: differences, intervals and exact tests.

Pure functions of two equally long sequences.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leakage_tasks.stats.clusters import effective_number, totals, units
from leakage_tasks.stats.intervals import LEVEL
from leakage_tasks.stats.power import POWER, rate_shown

FEWEST = 10
"""Minimum number of canaries for the t-interval of a mean difference. With fewer, normality cannot be checked."""
ENUMERATED = 16
"""Maximum number of non-zero differences for which all sign patterns are enumerated. With more, ``FLIPS`` patterns are
drawn."""
FLIPS = 100_000
_CELLS = 1 << 21
"""Maximum number of signs in memory at a time."""


def fewest_units(tests: int = 1) -> int:
    """Return the minimum number of units that can show a change at the level of 5 % divided by the number of ``tests``.

    The two-sided p-value of n units is at least 2^(1 − n).
    """
    return 1 + math.ceil(math.log2(tests / (1 - LEVEL)))


FEWEST_UNITS = fewest_units()
"""Minimum number of units that can show a change in a single test."""


@dataclass(frozen=True)
class Difference:
    """The value after minus the value before, with its 95 % interval and the two-sided p-value of no difference.

    The interval is None if there are too few pairs or all their differences are equal. ``min_detectable`` is the
    smallest absolute difference that this number of pairs detects with 80 % power; None if unknown. ``units`` is the
    number of independent units: pairs, or documents with several pairs.
    """

    value: float
    low: float | None
    high: float | None
    p: float
    min_detectable: float | None
    units: int

    @property
    def can_be_shown(self) -> bool:
        """True if the test is significant for some values of this number of units."""
        return self.units >= FEWEST_UNITS


def mean_difference(before: Sequence[float], after: Sequence[float]) -> Difference:
    """Return the difference of means with Student's t-interval and the sign-flip test of the paired differences.

    The test is exact: without a change, each difference has either sign with equal probability (Fisher, The Design of
    Experiments, 1935, section 21). Raises ValueError if there are no pairs.
    """
    changes = np.subtract(after, before)
    count = len(changes)
    if not count:
        raise ValueError("no pairs to compare")
    mean, p = float(changes.mean()), sign_flip(changes)
    error = 0.0 if count < FEWEST else float(changes.std(ddof=1) / math.sqrt(count))
    if not error:
        return Difference(mean, None, None, p, None, count)
    reach = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * error
    min_detectable = reach + float(stats.t.ppf(POWER, count - 1)) * error
    return Difference(mean, mean - reach, mean + reach, p, min_detectable, count)


def sign_flip(changes: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of the mean of ``changes`` if both signs of each change are equally likely.

    If sign patterns are drawn, the random seed is fixed.
    """
    sizes = np.abs(changes[changes != 0])
    if not len(sizes):
        return 1.0
    reached = abs(float(changes.sum())) - 1e-9 * float(sizes.sum())
    if len(sizes) <= ENUMERATED:
        signs = np.array(list(itertools.product((-1, 1), repeat=len(sizes))))
        return float((np.abs(signs @ sizes) >= reached).mean())
    stream, count = np.random.default_rng(0), 0
    # A part is a multiple of 8 patterns, so that the number of parts does not change the patterns.
    part = 8 * max(1, _CELLS // len(sizes) // 8)
    for done in range(0, FLIPS, part):
        signs = stream.integers(2, size=(min(part, FLIPS - done), len(sizes)), dtype=np.int8) * 2 - 1
        count += int((np.abs(signs @ sizes) >= reached).sum())
    return (1 + count) / (1 + FLIPS)


def rate_difference(
    before: Sequence[bool], after: Sequence[bool], documents: Sequence[int] | None = None
) -> Difference:
    """Return the difference of rates with Newcombe's interval for paired proportions and the exact McNemar test.

    Several pairs of one document depend on each other. Newcombe's interval is then that of the effective number of
    pairs, and the test flips the signs of whole documents, which equals McNemar's for one pair per document.

    Args:
        before: True for each pair with the property before.
        after: True for each pair with the property after.
        documents: Number of the document of each pair; None for one document per pair. Pairs of a single document,
            which they describe alone, count as documents.

    Raises:
        ValueError: There are no pairs.
    """
    count = len(before)
    if not count:
        raise ValueError("no pairs to compare")
    pairs = list(zip(before, after, strict=True))
    both, lost, gained = pairs.count((True, True)), pairs.count((True, False)), pairs.count((False, True))
    changes = [float(new) - float(old) for old, new in pairs]
    clusters = units(range(count) if documents is None else documents)
    sums, _ = totals(changes, clusters)
    if len(sums) == count:
        changed = gained + lost
        p = float(stats.binomtest(gained, changed).pvalue) if changed else 1.0
    else:
        p = sign_flip(sums)
    effective = effective_number(changes, clusters)
    cells = (both, gained, lost, count - both - gained - lost)
    low, high = newcombe(*(cell * effective / count for cell in cells))
    # FEWEST_UNITS documents with a change are significant if all changes have the same direction.
    changed_documents = rate_shown(FEWEST_UNITS, len(sums))
    # A document has a change if one of its effective number of pairs has.
    detectable = None if changed_documents is None else 1 - (1 - changed_documents) ** (len(sums) / effective)
    return Difference((gained - lost) / count, low, high, p, detectable, len(sums))


def newcombe(both: float, first: float, second: float, neither: float) -> tuple[float, float]:
    """Return the interval of the first rate minus the second (Newcombe, Statistics in Medicine 17 (1998) 2635).

    This is method 10 of the paper: Wilson's intervals of both rates, combined with their correlation.

    Args:
        both: Number of pairs with both outcomes.
        first: Number of pairs with only the first outcome.
        second: Number of pairs with only the second outcome.
        neither: Number of pairs without either outcome.

    Returns:
        The low and the high end.
    """
    count = both + first + second + neither
    ones, twos = both + first, both + second
    product = ones * (count - ones) * twos * (count - twos)
    excess = float(both * neither - first * second)
    if excess > 0:
        excess = max(excess - count / 2, 0.0)
    phi = excess / math.sqrt(product) if product else 0.0
    (low_1, high_1), (low_2, high_2) = _wilson(ones, count), _wilson(twos, count)
    rate_1, rate_2 = ones / count, twos / count
    down = _joint(rate_1 - low_1, high_2 - rate_2, phi)
    up = _joint(high_1 - rate_1, rate_2 - low_2, phi)
    return rate_1 - rate_2 - down, rate_1 - rate_2 + up


def _joint(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))


def _wilson(hits: float, count: float) -> tuple[float, float]:
    """Return Wilson's interval of a proportion, also of a number of trials that is not whole."""
    square = float(stats.norm.ppf((1 + LEVEL) / 2)) ** 2
    middle = hits + square / 2
    reach = math.sqrt(square * (hits * (count - hits) / count + square / 4))
    return max(0.0, middle - reach) / (count + square), min(count + square, middle + reach) / (count + square)
