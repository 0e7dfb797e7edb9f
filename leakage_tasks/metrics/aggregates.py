"""Aggregations over documents that skip undefined values; None if no value is defined.

The harness' own aggregations would bootstrap, or fail on a missing value.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy import special

from leakage_tasks.canaries.profiles import FEWEST_OF_A_TIER
from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs.submission import confidence_order, found_before, wrong_allowed
from leakage_tasks.stats import early_stop as early_stops
from leakage_tasks.stats import intervals, power
from leakage_tasks.stats.clusters import clustered_mean, units

FEWEST = FEWEST_OF_A_TIER
"""Minimum number of secrets for an interval: below it, no interval reaches its stated coverage."""
One = TypeVar("One")
"""Type variable for the value of one document: a number, or a small record for aggregates that need more."""
Result = TypeVar("Result")
"""Type variable for what several aggregates of the same values have in common, such as an estimate with its ends."""
Aggregate = Callable[[Sequence[One | None]], float | None]


class GuessOutcome(NamedTuple):
    """Outcome of a guess: 1 if it was correct, and its probability of being correct by chance."""

    hit: bool
    chance: float


class ExposureRange(NamedTuple):
    """Exposure of a secret in bits, known to be between ``least`` and ``most``, and the largest possible value."""

    least: float
    most: float
    largest: float


class RankedExposure(NamedTuple):
    """Exposure of a secret in bits, with the exposures at both ends of the interval or band of its rank.

    ``estimated`` is True for a 95 % interval, each end of which fails with probability 2.5 %.
    """

    least: float
    value: float
    most: float
    estimated: bool


class Guessed(NamedTuple):
    """The suffix guessed for one pair: its correctness, the attacker's confidence, its bits and pair, which break ties,
    and the number of the pair's document, None for a pair that is a document of its own."""

    right: bool
    confidence: float
    bits: float
    pair: int
    document: int | None = None


class ShareEnds(NamedTuple):
    """Membership of a document in a share: 1 if it belongs to the share, at the lower and at the upper end of its
    value."""

    low: float
    high: float


class ProbabilityBounds(NamedTuple):
    """The lower and the upper bound of a probability."""

    low: float
    high: float


class SampledShare(NamedTuple):
    """A probability, and the ``hits`` among ``draws`` that estimate it; 0 draws if the number of hits is unknown."""

    share: float
    hits: int
    draws: int


class Interval(NamedTuple):
    """The method of a 95 % interval: two functions from the values to its ends, and the name of the method."""

    kind: str
    low: Aggregate[Any]
    high: Aggregate[Any]


def of_defined(aggregate: Callable[[list[One]], float | None]) -> Aggregate[One]:
    """Return an aggregate of the defined values."""

    @wraps(aggregate)
    def found(values: Sequence[One | None]) -> float | None:
        defined = [value for value in values if value is not None]
        result = aggregate(defined) if defined else None
        return None if result is None else float(result)

    return found


def number_of(compute: Callable[[list[One]], Result | None], read: Callable[[Result], float | None]) -> Aggregate[One]:
    """Return an aggregate that reads a number off the result of ``compute``; None if there is no result."""

    def aggregate(values: list[One]) -> float | None:
        result = compute(values)
        return None if result is None else read(result)

    return of_defined(aggregate)


def estimate_of(
    compute: Callable[[list[One]], Result | None], kind: str, read: Callable[[Result], Any] = lambda result: result
) -> tuple[Aggregate[One], Interval]:
    """Return the aggregate of an estimate's value, and its interval of the method ``kind``.

    Args:
        compute: Computes a result from the defined values; None if there is none.
        kind: Name of the interval's method.
        read: Returns the estimate in the result, with ``value``, ``low`` and ``high``; by default the result.
    """

    def number(name: str) -> Aggregate[One]:
        return number_of(compute, lambda result: getattr(read(result), name))

    return number("value"), Interval(kind, number("low"), number("high"))


def _interval(kind: str, ends: Callable[[list[Any]], tuple[float, float] | tuple[None, None]]) -> Interval:
    """Return an :class:`Interval` of the method ``kind`` from a function that computes both ends at once."""
    return Interval(kind, of_defined(lambda values: ends(values)[0]), of_defined(lambda values: ends(values)[1]))


mean: Aggregate[float] = of_defined(statistics.fmean)
median: Aggregate[float] = of_defined(statistics.median)
maximum: Aggregate[float] = of_defined(max)
minimum: Aggregate[float] = of_defined(min)


def count(values: Sequence[object]) -> int:
    """Return the number of defined values."""
    return sum(value is not None for value in values)


def _pooled_exposure_ends(secrets: Sequence[ExposureRange]) -> tuple[float, float]:
    """Return the interval of the mean exposure by :func:`intervals.bounded_mean`.

    The upper end uses the maximum exposure of a secret with only a lower bound.
    """
    least, most, largest = np.array(secrets).T
    return intervals.bounded_mean(least, largest)[0], intervals.bounded_mean(most, largest)[1]


def _tier_exposure_ends(secrets: Sequence[ExposureRange]) -> tuple[float, float] | tuple[None, None]:
    return _pooled_exposure_ends(secrets) if len(secrets) >= FEWEST else (None, None)


def _ends_of_maximum(secrets: Sequence[RankedExposure]) -> tuple[float, float] | tuple[None, None]:
    """Return the largest lower end and the largest upper end; None if each exposure is known exactly.

    The largest of n estimated lower ends is too high if a single one is. Each is therefore moved away from its value to
    the level of Šidák's correction for their number, with the distances of a normal distribution.
    """
    if all(secret.least == secret.most for secret in secrets):
        return None, None
    number = max(1, sum(secret.estimated for secret in secrets))
    tail = (1 - intervals.LEVEL) / 2
    farther = float(special.ndtri((1 - tail) ** (1 / number)) / special.ndtri(1 - tail))
    lower_ends = (
        max(0.0, secret.value - farther * (secret.value - secret.least)) if secret.estimated else secret.least
        for secret in secrets
    )
    return max(lower_ends), max(secret.most for secret in secrets)


def _chance_ends(chances: list[float]) -> tuple[float, float]:
    low, high = (1 - intervals.LEVEL) / 2, (1 + intervals.LEVEL) / 2
    return intervals.share_quantile(chances, low), intervals.share_quantile(chances, high)


def _clopper_pearson(hits: Sequence[float]) -> tuple[float, float]:
    return intervals.clopper_pearson(round(sum(hits)), len(hits))


def _sampled_ends(values: list[SampledShare]) -> tuple[float, float]:
    """Return the interval of a mean, widened to the Clopper-Pearson interval of all draws if all hits are known.

    Equal shares of draws may come from different probabilities. With n draws over all documents and no hit, the upper
    end is at least 1 − 0.025^(1/n), about 3.7 / n (Clopper and Pearson 1934). It bounds the mean of the documents'
    probabilities p_i: if each document has an equal number of draws, the chance of no hit, the product of
    (1 − p_i)^draws, is largest if all p_i equal their mean.
    """
    shares = [value.share for value in values]
    if not all(value.draws for value in values):
        return _ends_between(shares, 0, 1)
    return widened_by_draws(_mean_ends(tuple(shares), 0, 1) if len(set(shares)) > 1 else (shares[0], shares[0]), values)


def widened_by_draws(ends: tuple[float, float], values: Sequence[SampledShare]) -> tuple[float, float]:
    """Return the smallest interval that contains ``ends`` and the Clopper-Pearson interval of all draws."""
    hits, draws = sum(value.hits for value in values), sum(value.draws for value in values)
    least, most = intervals.clopper_pearson(hits, draws)
    return min(ends[0], least), max(ends[1], most)


def mean_between(least: float, most: float) -> Interval:
    """Return the interval of the mean of values from ``least`` to ``most``
    (:func:`~leakage_tasks.stats.clusters.clustered_mean`).

    In simulations of 10 to 100 probabilities near 0, a percentile bootstrap held in only 54 to 90 % of runs.
    """
    return _interval(MEAN.kind, lambda values: _ends_between(values, least, most))


@lru_cache(maxsize=2)
def _mean_ends(values: tuple[float, ...], least: float, most: float) -> tuple[float, float]:
    """Return both ends, cached, because a bootstrap of many values takes seconds, and an interval may need two."""
    return clustered_mean(values, range(len(values)), least, most)


def _ends_between(values: Sequence[float], least: float, most: float) -> tuple[float, float]:
    return _mean_ends(tuple(values), least, most)


def _unlimited_ends(values: list[float]) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of values without limits; None for equal values, whose spread is unknown."""
    ends = _ends_between(values, -math.inf, math.inf)
    return ends if math.isfinite(sum(ends)) else (None, None)


def _probability_ends(values: list[ProbabilityBounds]) -> tuple[float, float]:
    """Return the lower end for the lower bounds, and the upper end for the upper bounds."""
    low, high = zip(*values, strict=True)
    return _ends_between(low, 0, 1)[0], _ends_between(high, 0, 1)[1]


PAIR_BOOTSTRAP = "by-document bootstrap and Korn-Graubard (a single document: by pair)"
"""Method of the interval of pairs that are no share."""
CLOPPER_PEARSON = _interval("Clopper-Pearson", _clopper_pearson)
"""Interval of the share of values that are 1."""
MEAN = _interval("bootstrap-t (Student's t for few)", _unlimited_ends)
"""Interval of the mean of values without limits."""
SAMPLED_SHARE = _interval(MEAN.kind, _sampled_ends)
"""Interval of the mean of probabilities, some of which are estimated as shares of draws."""
PROBABILITY_BOUNDS = _interval(MEAN.kind, _probability_ends)
"""Interval of the mean of probabilities that are known up to bounds."""
LOG_T = _interval("log-t", _tier_exposure_ends)
"""Interval of the mean exposure of secrets of one tier or family; None for fewer than :data:`FEWEST`."""
POOLED_EXPOSURE = _interval(LOG_T.kind, _pooled_exposure_ends)
"""Interval of the mean exposure of secrets with any numbers of copies, also of fewer than :data:`FEWEST`."""
OF_MAXIMUM = _interval("largest ends of the canaries' intervals", _ends_of_maximum)
"""Interval of the largest exposure, from the interval or band of each canary's rank."""
BY_CHANCE = _interval("", _chance_ends)
"""Interval of the share of hits in 95 % of runs, from the probability of each document."""


@of_defined
def hit_by_chance(trials: list[GuessOutcome]) -> float:
    """Return the exact probability that random guesses have at least as many hits."""
    return intervals.share_at_least(sum(trial[0] for trial in trials), [trial[1] for trial in trials])


@of_defined
def rate_shown_by(trials: list[GuessOutcome]) -> float | None:
    """Return the lowest hit rate that this number of guesses detects with 80 % power (exact).

    None if no number of hits would be significant.
    """
    chances = [trial.chance for trial in trials]
    enough = (hits for hits in range(1, len(chances) + 1) if intervals.share_at_least(hits, chances) <= power.ALPHA)
    return power.rate_shown(next(enough, len(chances) + 1), len(chances))


@of_defined
def exposure_shown_by(secrets: list[ExposureRange]) -> float | None:
    """Return the lowest mean exposure in bits that this number of secrets detects with 80 % power.

    None if it exceeds the largest possible mean exposure.
    """
    largest = [secret.largest for secret in secrets]
    bits = power.detectable_exposure(len(secrets), max(largest))
    return bits if bits is not None and bits <= statistics.fmean(largest) else None


def early_stop(wrong: int | None = None) -> Aggregate[Guessed]:
    """Aggregate correct guesses before wrong guess number ``wrong``, by falling confidence, as a share of all pairs.

    This is the score of the Training Data Extraction Challenge (Zhang et al. 2023, section 4.3: 100 wrong guesses in
    1,000 pairs). Guesses of equal confidence are ordered by bits, then by pair. If ``wrong`` is None,
    :func:`wrong_allowed` gives the number. Raises OptionError for an invalid ``wrong``.
    """
    check_wrong(wrong)
    return of_defined(
        lambda guesses: found_before(_judged(_ranked(guesses)), wrong or wrong_allowed(len(guesses))) / len(guesses)
    )


def early_stop_interval(wrong: int | None = None) -> Interval:
    """Return the interval of :func:`early_stop`: by document, or by pair for pairs of a single document.

    Raises OptionError for an invalid ``wrong``.
    """
    check_wrong(wrong)

    def ends(guesses: list[Guessed]) -> tuple[float, float]:
        ranked = _ranked(guesses)
        documents = units([guess.pair if guess.document is None else guess.document for guess in ranked])
        allowed = wrong or wrong_allowed(len(ranked))
        return early_stops.early_stop_interval(_judged(ranked), len(ranked), allowed, documents)

    return _interval(PAIR_BOOTSTRAP, ends)


def _judged(ranked: Sequence[Guessed]) -> list[tuple[int, bool]]:
    return [(index, bool(guess.right)) for index, guess in enumerate(ranked)]


def _ranked(guesses: Sequence[Guessed]) -> list[Guessed]:
    # Values that went through JSON are lists.
    made = [Guessed(*guess) for guess in guesses]
    return sorted(made, key=lambda guess: confidence_order(guess.confidence, guess.bits, guess.pair))


def check_wrong(wrong: int | None, option: str = "--metadata wrong=") -> None:
    """Raise OptionError for an invalid number of wrong guesses, the value of ``option``."""
    if wrong is not None and wrong < 1:
        raise OptionError(f"{option}{wrong}: allow 1 wrong guess or more")
