"""The skew-normal distribution of costs: its density, its distribution function and, in bits, its far lower tail.

The Secret Sharer, section 4.3, reads the exposure of a secret too rare to be sampled off this tail. A fit to costs
comes with its Kolmogorov-Smirnov test and the uncertainty of what is read off its tail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy import integrate, optimize, special, stats

from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.errors import OptionError
from leakage_tasks.stats.intervals import LEVEL

_CLOSE = 1e-9
"""Probability below which the distribution function loses digits to cancellation and is integrated instead."""
FEWEST = 50
"""Different costs that a fit takes: three parameters of fewer say little of a tail."""
RESAMPLES = 99
"""Samples drawn from the fit and fitted anew, to judge it by."""
SIGNIFICANCE = 0.05
_MOST_SKEWED = 0.99
"""The largest skewness that a search starts from; a skew-normal's own ends at 0.9953."""


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


@dataclass(frozen=True)
class SkewNormalFit(SkewNormal):
    """A fit, and how well ``count`` costs agree with it.

    ``statistic`` is that of Kolmogorov and Smirnov; ``p_value`` is the share of samples drawn from the fit that, each
    fitted anew (``resampled``), stray as far.
    """

    statistic: float
    p_value: float
    count: int
    resampled: tuple[SkewNormal, ...] = field(repr=False)

    @property
    def rejected(self) -> bool:
        """Whether the costs are unlikely to be skew-normal (p below 0.05), so that no tail should be read off."""
        return self.p_value < SIGNIFICANCE

    def exposure_interval(self, cost: float) -> tuple[float, float]:
        """95 % interval of :meth:`exposure` in bits, from how the fits to samples of it spread (Student's t).

        It knows the uncertainty of the three parameters alone: not whether the tail has this shape.
        """
        bits = [each.exposure(cost) for each in self.resampled]
        reach = float(stats.t.ppf((1 + LEVEL) / 2, len(bits) - 1) * np.std(bits, ddof=1))
        return max(0.0, self.exposure(cost) - reach), self.exposure(cost) + reach


def fit_skew_normal(values: Sequence[float] | FloatArray) -> SkewNormalFit:
    """Fit by maximum likelihood and test it by Kolmogorov and Smirnov's distance.

    That distance is small for parameters of the same values, and the usual p-value far too kind. So it is compared with
    the distances of 99 samples drawn from the fit and fitted themselves (parametric bootstrap; Stute, Gonzáles
    Manteiga and Presedo Quindimil 1993), the same ones for the same values; p is 1 / 100 at the least.
    Raises OptionError for fewer than 50 different values, or one that is no number.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not np.isfinite(data).all() or len(np.unique(data)) < FEWEST:
        raise OptionError(
            f"{len(np.unique(data))} different costs: a skew-normal is fitted to {FEWEST} finite ones or more; score "
            "more random fillings (draws=…, histogram=…), or use a larger space"
        )
    # Costs in units of their own spread: the search for the parameters is then the same whatever the bits.
    centre, spread = float(data.mean()), float(data.std())
    data = (data - centre) / spread
    fit = likeliest(data)
    statistic = _distance(data, fit)
    drawn = stats.skewnorm.rvs(
        fit.shape, fit.location, fit.scale, size=(RESAMPLES, len(data)), random_state=np.random.default_rng(0)
    )
    drawn.sort(axis=1)
    fits = [likeliest(sample) for sample in drawn]
    as_far = sum(_distance(sample, each) >= statistic for sample, each in zip(drawn, fits, strict=True))
    found, *resampled = (
        SkewNormal(each.shape, centre + spread * each.location, spread * each.scale) for each in (fit, *fits)
    )
    return SkewNormalFit(
        found.shape,
        found.location,
        found.scale,
        statistic=statistic,
        p_value=(1 + as_far) / (1 + RESAMPLES),
        count=len(data),
        resampled=tuple(resampled),
    )


def likeliest(data: FloatArray) -> SkewNormal:
    """The skew-normal of the highest likelihood for ``data`` ``[n]``, searched for from that of its moments.

    The gradient makes this seven times as quick as ``scipy.stats.skewnorm.fit``, and as good.
    """
    found = optimize.minimize(_loss, _by_moments(data), args=(data,), jac=True, method="L-BFGS-B")
    location, log_scale, shape = (float(each) for each in found.x)
    return SkewNormal(shape, location, math.exp(log_scale))


def _loss(parameters: FloatArray, data: FloatArray) -> tuple[float, FloatArray]:
    """Mean negative log-likelihood in nats, less a constant, and its gradient, at (location, log scale, shape)."""
    location, log_scale, shape = parameters
    scale = math.exp(log_scale)
    z = (data - location) / scale
    log_share = special.log_ndtr(shape * z)
    # φ / Φ at shape · z, and minus the slope of the log-density at z.
    ratio = np.exp(-((shape * z) ** 2) / 2 - log_share) / math.sqrt(2 * math.pi)
    pull = z - shape * ratio
    loss = log_scale + np.mean(z * z) / 2 - log_share.mean()
    return float(loss), np.array([-pull.mean() / scale, 1 - np.mean(z * pull), -np.mean(z * ratio)])


def _by_moments(data: FloatArray) -> FloatArray:
    """(location, log scale, shape) of the skew-normal with the mean, variance and skewness of ``data`` (Azzalini)."""
    skewness = float(np.clip(stats.skew(data), -_MOST_SKEWED, _MOST_SKEWED))
    pull = np.cbrt(2 * skewness / (4 - math.pi))
    mean = pull / math.sqrt(1 + pull**2)
    delta = mean * math.sqrt(math.pi / 2)
    scale = float(data.std()) / math.sqrt(1 - mean**2)
    return np.array([data.mean() - mean * scale, math.log(scale), delta / math.sqrt(1 - delta**2)])


def _distance(data: FloatArray, curve: SkewNormal) -> float:
    """The largest distance between the distributions of ``data`` and of ``curve``."""
    return float(stats.ks_1samp(data, curve.distribution, method="asymp").statistic)


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
