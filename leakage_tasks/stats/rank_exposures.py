"""Exposures of secrets in spaces of fewer than 64 fillings, where ranks are far from continuous.

The rank r of a secret that the model never saw is uniform on 1..R, and its exposure is log2(R / r) (The Secret Sharer,
Definition 4). The alternative is Lehmann's, as in :mod:`leakage_tasks.stats.power`: the rank is at most r with
probability (r / R)^(1/θ).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from leakage_tasks.core.arrays import FloatArray

SMALL, DRAWN = 6, 20_000
"""Size of a space in bits below which ranks are far from continuous, and the number of simulated draws."""
_SHOWN, _HALVINGS = 5_000, 10
"""Number of simulated audits per alternative, and of bisections."""


def rank_chances(log2_size: float, power: float = 1.0) -> tuple[FloatArray, FloatArray]:
    """Return the probability and the exposure in bits of each rank of a small space.

    ``power`` is 1/θ of the alternative: 1 for a secret that the model never saw, 0 if it ranks all secrets first.
    """
    size = round(2.0**log2_size)
    ranks = np.arange(1, size + 1)
    most = (ranks / size) ** power
    return np.diff(most, prepend=0.0), math.log2(size) - np.log2(ranks)


def highest_chances(smallest: float, largest: float) -> tuple[FloatArray, FloatArray]:
    """Return the probability and the value in bits of each exposure of a secret in a space of unknown size.

    In spaces of 2^``smallest`` to 2^``largest`` fillings, an exposure is at least a value with at most this
    probability: none of these sizes has the largest probability for all values.
    """
    sizes = np.arange(round(2.0**smallest), round(2.0**largest) + 1)
    shares = np.unique(np.concatenate([np.arange(1, size + 1) / size for size in sizes]))
    at_most = (np.floor(shares[:, None] * sizes + 1e-9) / sizes).max(axis=1)
    return np.diff(at_most, prepend=0.0), -np.log2(shares)


@lru_cache(maxsize=64)
def detectable_mean(number: int, log2_size: float, alpha: float, power: float) -> float | None:
    """Return the lowest mean exposure in bits that this number of secrets of a small space shows to be above chance.

    Args:
        number: Number of secrets.
        log2_size: log2|R| of their spaces.
        alpha: Significance level.
        power: Probability with which the test detects the mean exposure.

    Returns:
        The mean, by simulation; None if chance ranks all secrets first with a probability above ``alpha``.
    """
    by_chance = np.sort(drawn_totals(np.random.default_rng(0), number, rank_chances(log2_size)))[::-1]
    enough = by_chance[int(alpha * (1 + DRAWN)) - 1] + 1e-9
    if number * math.log2(round(2.0**log2_size)) <= enough:
        return None
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        audits = drawn_totals(np.random.default_rng(0), number, rank_chances(log2_size, middle), _SHOWN)
        shown = float((audits > enough).mean())
        low, high = (middle, high) if shown >= power else (low, middle)
    shares, exposures = rank_chances(log2_size, low)
    return float(shares @ exposures)


def drawn_totals(
    stream: np.random.Generator, number: int, chances: tuple[FloatArray, FloatArray], draws: int = DRAWN
) -> FloatArray:
    """Return the summed exposure in bits of secrets with these probabilities of each exposure, for each draw."""
    shares, exposures = chances
    totals: FloatArray = stream.multinomial(number, shares, size=draws) @ exposures
    return totals
