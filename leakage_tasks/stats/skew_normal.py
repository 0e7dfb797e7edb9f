"""Skew-normal distribution of costs: density, distribution function and far lower tail, in bits.

The Secret Sharer, section 4.3, extrapolates the exposure of a secret from this tail if its rank is too low to be
sampled. A fit includes a Kolmogorov-Smirnov test and the uncertainty of extrapolated exposures.
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
"""Least number of distinct costs for a fit: with fewer, three parameters say little about the tail."""
RESAMPLES = 99
"""Number of parametric bootstrap samples: drawn from the fit and fitted again."""
SIGNIFICANCE = 0.05
_MOST_SKEWED = 0.99
"""Largest skewness for the initial values of a fit. The skewness of a skew-normal is below 0.9953."""


@dataclass(frozen=True)
class SkewNormal:
    """A skew-normal with density 2 / scale · φ(z) · Φ(shape · z) at x, with z = (x − location) / scale."""

    shape: float
    location: float
    scale: float

    def density(self, costs: ArrayLike) -> FloatArray:
        """Return the density at each cost, per bit."""
        return np.exp(_log_density(self._standard(costs), self.shape)) / self.scale

    def distribution(self, costs: ArrayLike) -> FloatArray:
        """Return P(cost ≤ x) for each x in ``costs``. Far below the mode :meth:`exposure` is more precise."""
        probabilities: FloatArray = np.clip(_distribution(self._standard(costs), self.shape), 0.0, 1.0)
        return probabilities

    def exposure(self, cost: float) -> float:
        """Return −log2 P(x ≤ ``cost``), the extrapolated exposure in bits.

        The result is finite and strictly decreasing even far out in the tail. It may exceed log2|R|.
        """
        return -_log_distribution(float(self._standard(cost)), self.shape) / math.log(2)

    def _standard(self, costs: ArrayLike) -> FloatArray:
        return np.asarray((np.asarray(costs, dtype=np.float64) - self.location) / self.scale)


@dataclass(frozen=True)
class SkewNormalFit(SkewNormal):
    """A skew-normal fitted to ``count`` costs, with its goodness of fit.

    ``statistic`` is the Kolmogorov-Smirnov statistic. ``resampled`` are the fits to samples drawn from this fit;
    ``p_value`` is the share of these samples whose statistic is as large or larger.
    """

    statistic: float
    p_value: float
    count: int
    resampled: tuple[SkewNormal, ...] = field(repr=False)

    @property
    def rejected(self) -> bool:
        """True if the costs are unlikely to be skew-normal (p below 0.05): then do not extrapolate."""
        return self.p_value < SIGNIFICANCE

    def exposure_interval(self, cost: float) -> tuple[float, float]:
        """Return the 95 % interval of :meth:`exposure` in bits, from the spread of the bootstrap fits (Student's t).

        It covers the uncertainty of the three parameters only; the true tail may have another shape.
        """
        bits = [fit.exposure(cost) for fit in self.resampled]
        reach = float(stats.t.ppf((1 + LEVEL) / 2, len(bits) - 1) * np.std(bits, ddof=1))
        return max(0.0, self.exposure(cost) - reach), self.exposure(cost) + reach


def fit_skew_normal(values: Sequence[float] | FloatArray) -> SkewNormalFit:
    """Fit a skew-normal by maximum likelihood and test the fit by the Kolmogorov-Smirnov distance.

    The parameters come from the tested values, so the distance is small and the standard p-value far too large.
    Therefore the distance is compared with the distances of 99 samples drawn from the fit and fitted again (parametric
    bootstrap; Stute, Gonzáles Manteiga and Presedo Quindimil 1993). The random seed is fixed; p is at least 1 / 100.
    Raises OptionError for fewer than 50 distinct values or a value that is not finite.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not np.isfinite(data).all() or len(np.unique(data)) < FEWEST:
        raise OptionError(
            f"{len(np.unique(data))} different costs: a skew-normal is fitted to {FEWEST} finite ones or more; score "
            "more random fillings (draws=…, histogram=…), or use a larger space"
        )
    # Standardized costs make the optimization independent of their scale.
    centre, spread = float(data.mean()), float(data.std())
    data = (data - centre) / spread
    fit = fit_by_likelihood(data)
    statistic = _distance(data, fit)
    drawn = stats.skewnorm.rvs(
        fit.shape, fit.location, fit.scale, size=(RESAMPLES, len(data)), random_state=np.random.default_rng(0)
    )
    drawn.sort(axis=1)
    fits = [fit_by_likelihood(sample) for sample in drawn]
    as_far = sum(_distance(sample, refit) >= statistic for sample, refit in zip(drawn, fits, strict=True))
    fitted, *resampled = (
        SkewNormal(curve.shape, centre + spread * curve.location, spread * curve.scale) for curve in (fit, *fits)
    )
    return SkewNormalFit(
        fitted.shape,
        fitted.location,
        fitted.scale,
        statistic=statistic,
        p_value=(1 + as_far) / (1 + RESAMPLES),
        count=len(data),
        resampled=tuple(resampled),
    )


def fit_by_likelihood(data: FloatArray) -> SkewNormal:
    """Return the maximum likelihood skew-normal for ``data`` ``[n]``. The search starts from its moments.

    With the gradient this is seven times as fast as ``scipy.stats.skewnorm.fit``, and as good.
    """
    optimum = optimize.minimize(_loss, _by_moments(data), args=(data,), jac=True, method="L-BFGS-B")
    location, log_scale, shape = (float(parameter) for parameter in optimum.x)
    return SkewNormal(shape, location, math.exp(log_scale))


def _loss(parameters: FloatArray, data: FloatArray) -> tuple[float, FloatArray]:
    """Return the mean negative log-likelihood in nats, minus a constant, and its gradient.

    ``parameters`` are (location, log scale, shape).
    """
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
    """Return (location, log scale, shape) of the skew-normal with the first three moments of ``data`` (Azzalini)."""
    skewness = float(np.clip(stats.skew(data), -_MOST_SKEWED, _MOST_SKEWED))
    pull = np.cbrt(2 * skewness / (4 - math.pi))
    mean = pull / math.sqrt(1 + pull**2)
    delta = mean * math.sqrt(math.pi / 2)
    scale = float(data.std()) / math.sqrt(1 - mean**2)
    return np.array([data.mean() - mean * scale, math.log(scale), delta / math.sqrt(1 - delta**2)])


def _distance(data: FloatArray, curve: SkewNormal) -> float:
    """Return the Kolmogorov-Smirnov distance between ``data`` and ``curve``."""
    return float(stats.ks_1samp(data, curve.distribution, method="asymp").statistic)


def _log_density(z: ArrayLike, shape: float) -> FloatArray:
    """Return the natural logarithm of the standard density 2 φ(z) Φ(shape · z)."""
    log_density: FloatArray = math.log(2) + stats.norm.logpdf(z) + special.log_ndtr(shape * np.asarray(z))
    return log_density


def _distribution(z: ArrayLike, shape: float) -> FloatArray:
    """Return the standard distribution function: Φ(z) − 2 T(z, shape), with Owen's T."""
    probabilities: FloatArray = special.ndtr(z) - 2 * special.owens_t(z, shape)
    return probabilities


def _log_distribution(z: float, shape: float) -> float:
    """Return the natural logarithm of the standard distribution function, with full precision in the lower tail."""
    probability = float(_distribution(z, shape))
    if probability > _CLOSE:
        return math.log(min(probability, 1.0))
    # The density is log-concave: below its mode it decays at least as fast as an exponential with its slope at z. So
    # the integral is taken relative to the density at z, in units of this decay length.
    skewed = shape * z
    slope = -z + shape * math.sqrt(2 / math.pi) * math.exp(-(max(skewed, 0.0) ** 2) / 2) / _scaled(skewed)
    tail, _ = integrate.quad(lambda step: _fall(z, step / slope, shape), 0, 50)
    return float(_log_density(z, shape)) + math.log(tail / slope)


def _fall(z: float, down: float, shape: float) -> float:
    """Return the density at z − ``down`` divided by the density at z, without loss of digits far out."""
    skewed, further = shape * z, shape * (z - down)
    steep = 1.0 + (shape**2 if max(skewed, further) <= 0 else 0.0)
    ratio = _scaled(further) / _scaled(skewed) if steep > 1 else special.ndtr(further) / special.ndtr(skewed)
    return math.exp(-steep * down * (down - 2 * z) / 2) * float(ratio)


def _scaled(x: float) -> float:
    """Return 2 Φ(x), multiplied by exp(x² / 2) for x ≤ 0 to avoid underflow."""
    return float(special.erfcx(-x / math.sqrt(2)) if x <= 0 else 2 * special.ndtr(x))
