"""The skew-normal distribution of costs: its density, its distribution function and, in bits, its far lower tail.

The Secret Sharer, section 4.3, reads the exposure of a secret too rare to be sampled off this tail.
:mod:`leakage_tasks.stats.skew_fit` fits one to costs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, special, stats

from leakage_tasks.core.arrays import FloatArray

_CLOSE = 1e-9
"""Probability below which the distribution function loses digits to cancellation and is integrated instead."""


@dataclass(frozen=True)
class SkewNormal:
    """The density at x is 2 / scale · φ(z) · Φ(shape · z) with z = (x − location) / scale."""

    shape: float
    location: float
    scale: float

    def density(self, costs: ArrayLike) -> FloatArray:
        """Density at each cost, a bit."""
        return np.exp(_log_density(self._standard(costs), self.shape)) / self.scale

    def distribution(self, costs: ArrayLike) -> FloatArray:
        """Probability of a cost no higher than each; far below the mode :meth:`exposure` keeps its digits."""
        found: FloatArray = np.clip(_distribution(self._standard(costs), self.shape), 0.0, 1.0)
        return found

    def exposure(self, cost: float) -> float:
        """−log2 of the probability of a cost no higher than ``cost``: the extrapolated exposure in bits.

        Finite and falling however far out ``cost`` is. It knows no upper bound: the space may end at log2|R|.
        """
        return -_log_distribution(float(self._standard(cost)), self.shape) / math.log(2)

    def _standard(self, costs: ArrayLike) -> FloatArray:
        return np.asarray((np.asarray(costs, dtype=np.float64) - self.location) / self.scale)


def _log_density(z: ArrayLike, shape: float) -> FloatArray:
    """Natural logarithm of the standard density 2 φ(z) Φ(shape · z)."""
    found: FloatArray = math.log(2) + stats.norm.logpdf(z) + special.log_ndtr(shape * np.asarray(z))
    return found


def _distribution(z: ArrayLike, shape: float) -> FloatArray:
    """The standard distribution function: Φ(z) − 2 T(z, shape), with Owen's T."""
    found: FloatArray = special.ndtr(z) - 2 * special.owens_t(z, shape)
    return found


def _log_distribution(z: float, shape: float) -> float:
    """Natural logarithm of the standard distribution function, to full precision in its lower tail."""
    probability = float(_distribution(z, shape))
    if probability > _CLOSE:
        return math.log(min(probability, 1.0))
    # The density is log-concave: below its mode it falls at least as fast as an exponential of its slope at z. So,
    # divided by what it is at z, it is integrated over lengths of that decay.
    skewed = shape * z
    slope = -z + shape * math.sqrt(2 / math.pi) * math.exp(-(max(skewed, 0.0) ** 2) / 2) / _scaled(skewed)
    tail, _ = integrate.quad(lambda step: _fall(z, step / slope, shape), 0, 50)
    return float(_log_density(z, shape)) + math.log(tail / slope)


def _fall(z: float, down: float, shape: float) -> float:
    """The density at z − ``down`` over that at z, from differences that lose no digits far out."""
    skewed, further = shape * z, shape * (z - down)
    steep = 1.0 + (shape**2 if max(skewed, further) <= 0 else 0.0)
    ratio = _scaled(further) / _scaled(skewed) if steep > 1 else special.ndtr(further) / special.ndtr(skewed)
    return math.exp(-steep * down * (down - 2 * z) / 2) * float(ratio)


def _scaled(x: float) -> float:
    """2 Φ(x), times exp(x² / 2) below 0, where it would underflow."""
    return float(special.erfcx(-x / math.sqrt(2)) if x <= 0 else 2 * special.ndtr(x))
