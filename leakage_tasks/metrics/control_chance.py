"""Probability by chance of the exposures of controls, whose secrets no model saw."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from leakage_tasks.attacks.coarse import band_chances
from leakage_tasks.metrics.aggregates import of_defined
from leakage_tasks.stats.rank_exposures import DRAWN, SMALL, drawn_totals, highest_chances, rank_chances


class ControlExposure(NamedTuple):
    """Exposure of a control in bits, log2|R|, and True if only a band of its rank is known."""

    exposure: float
    log2_size: float
    banded: bool = False


@of_defined
def chance_of_exposure_as_high(values: list[ControlExposure]) -> float:
    """Return the probability that secrets no model saw have at least this mean exposure in bits.

    Each exposure is −log2 of a uniform share (The Secret Sharer, Definition 4), so the sum in nats is at most a Gamma
    variable with shape n for n controls. If some spaces are so small that the sum is much less, or if only bands of
    ranks are known, 20,000 draws of ranks or bands are used instead.
    """
    total = sum(value.exposure for value in values)
    if any(value.banded or value.log2_size < SMALL for value in values):
        return float((1 + (_drawn_totals(values) >= total - 1e-9).sum()) / (1 + DRAWN))
    return float(stats.gamma.sf(math.log(2) * total, len(values)))


def chance_of_mean_exposure(bits: float, number: int, smallest: float, largest: float) -> float:
    """Return the probability that ``number`` secrets no model saw have at least this mean exposure in bits.

    ``smallest`` and ``largest`` are log2|R| of their spaces. The probability is exact up to simulation for small spaces
    of equal size, and at most too large for others.
    """
    if largest >= SMALL:
        return float(stats.gamma.sf(math.log(2) * bits * number, number))
    drawn = drawn_totals(np.random.default_rng(0), number, highest_chances(smallest, largest))
    return float((1 + (drawn >= bits * number - 1e-9).sum()) / (1 + DRAWN))


def _drawn_totals(values: list[ControlExposure]) -> NDArray[np.float64]:
    """Return the summed exposure of simulated secrets that no model saw, for each of 20,000 draws."""
    stream = np.random.default_rng(0)
    drawn = np.zeros(DRAWN)
    listed = [value for value in values if value.banded or value.log2_size < SMALL]
    if len(listed) < len(values):
        drawn += stream.gamma(len(values) - len(listed), 1 / math.log(2), size=DRAWN)
    for (banded, log2_size), number in sorted(Counter((value.banded, value.log2_size) for value in listed).items()):
        if not banded:
            drawn += drawn_totals(stream, number, rank_chances(log2_size))
            continue
        shares, exposures = zip(*band_chances(log2_size), strict=True)
        drawn += stream.multinomial(number, np.array(shares) / sum(shares), size=DRAWN) @ np.array(exposures)
    return drawn


@of_defined
def chance_of_exposure_as_low(controls: list[ControlExposure]) -> float:
    """Return the probability that secrets no model saw have at most this mean exposure.

    A rank r of R counts as the middle of its share, (r − ½) / R: the negative logarithm is close to an exponential
    variable, and the sum to a Gamma variable. If some R is small, or only bands of ranks are known, 20,000 draws of
    ranks or bands are used instead.
    """
    if any(place.banded for place in controls):
        total = sum(place.exposure for place in controls)
        return float((1 + (_drawn_totals(controls) <= total + 1e-9).sum()) / (1 + DRAWN))
    halves = [(2.0**-place.exposure, 2.0 ** -(place.log2_size + 1)) for place in controls]
    total = -sum(math.log(max(share - half, share / 2, sys.float_info.min)) for share, half in halves)
    sizes = Counter(round(2.0 ** min(log2_size, SMALL)) for _, log2_size, _ in controls)
    if min(sizes) >= 2**SMALL:
        return float(stats.gamma.cdf(total, len(controls)))
    stream = np.random.default_rng(0)
    drawn = np.zeros(DRAWN)
    for size, number in sorted(sizes.items()):
        middles = (stream.integers(size, size=(DRAWN, number)) + 0.5) / size
        drawn -= np.log(middles if size < 2**SMALL else stream.random((DRAWN, number))).sum(axis=1)
    return float((1 + (drawn <= total + 1e-9).sum()) / (1 + DRAWN))
