"""A skew-normal distribution of costs, from which an exposure too large to be sampled is extrapolated.

The Secret Sharer, section 4.3: fitted to the log-perplexities of random fillings, the probability it gives to costs no
higher than the secret's stands for the secret's rank as a share of all fillings.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, special, stats

from leakage_tasks.errors import OptionError

FEWEST = 50
"""Different costs that a fit takes: three parameters of fewer say little of a tail."""
RESAMPLES = 199
"""Samples drawn from the fit to judge its Kolmogorov-Smirnov statistic by."""
SIGNIFICANCE = 0.05
_CLOSE = 1e-9
"""Probability below which the distribution function loses digits to cancellation and is integrated instead."""


@dataclass(frozen=True)
class SkewNormal:
    """A fit: the three parameters, and how well ``count`` costs agree with it.

    The density at x is 2 / scale · φ(z) · Φ(shape · z) with z = (x − location) / scale. ``statistic`` is that of
    Kolmogorov and Smirnov; ``p_value`` is the share of samples drawn from the fit that, each fitted anew, stray as far.
    """

    shape: float
    location: float
    scale: float
    statistic: float
    p_value: float
    count: int

    @property
    def rejected(self) -> bool:
        """Whether the costs are unlikely to be skew-normal (p below 0.05), so that no tail should be read off."""
        return self.p_value < SIGNIFICANCE

    def density(self, costs: ArrayLike) -> NDArray[np.float64]:
        """Density at each cost, a bit."""
        return np.exp(_log_density(self._standard(np.asarray(costs, dtype=np.float64)), self.shape)) / self.scale

    def exposure(self, cost: float) -> float:
        """−log2 of the probability of a cost no higher than ``cost``: the extrapolated exposure in bits.

        Finite and falling however far out ``cost`` is. It knows no upper bound: the space may end at log2|R|.
        """
        return -_log_distribution(float(self._standard(np.float64(cost))), self.shape) / math.log(2)

    def _standard(self, costs: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
        return np.asarray((costs - self.location) / self.scale, dtype=np.float64)


def fit_skew_normal(values: Sequence[float]) -> SkewNormal:
    """Fit by maximum likelihood and test it by Kolmogorov and Smirnov's distance.

    That distance is small for parameters of the same values, and the usual p-value far too kind. So it is compared with
    the distances of 199 samples drawn from the fit and fitted themselves (parametric bootstrap; Stute, Gonzáles
    Manteiga and Presedo Quindimil 1993), the same ones for the same values; p is 1 / 200 at the least.
    Raises OptionError for fewer than 50 different values, or one that is no number.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not np.isfinite(data).all() or len(np.unique(data)) < FEWEST:
        raise OptionError(
            f"{len(np.unique(data))} different costs: a skew-normal is fitted to {FEWEST} finite ones or more; raise "
            "histogram=…, or use a larger space"
        )
    # Costs in units of their own spread: the search for the parameters is then the same whatever the bits.
    centre, spread = float(data.mean()), float(data.std())
    judged = stats.goodness_of_fit(
        stats.skewnorm,
        (data - centre) / spread,
        statistic="ks",
        n_mc_samples=RESAMPLES,
        random_state=np.random.default_rng(0),
    )
    shape, location, scale = (float(judged.fit_result.params[n]) for n in range(3))
    place = centre + spread * location
    return SkewNormal(shape, place, spread * scale, float(judged.statistic), float(judged.pvalue), len(data))


def _log_density(z: ArrayLike, shape: float) -> NDArray[np.float64]:
    """Natural logarithm of the standard density 2 φ(z) Φ(shape · z)."""
    found: NDArray[np.float64] = math.log(2) + stats.norm.logpdf(z) + special.log_ndtr(shape * np.asarray(z))
    return found


def _log_distribution(z: float, shape: float) -> float:
    """Natural logarithm of the standard distribution function: Φ(z) − 2 T(z, shape), with Owen's T."""
    probability = float(special.ndtr(z) - 2 * special.owens_t(z, shape))
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
