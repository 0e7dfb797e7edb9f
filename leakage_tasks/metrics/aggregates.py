"""Aggregations over documents that skip undefined values; over none of them the aggregate is None.

The harness' own would bootstrap, or choke on a missing value.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeVar

import numpy as np

from leakage_tasks.canaries.profiles import FEWEST_OF_A_TIER
from leakage_tasks.core.errors import OptionError
from leakage_tasks.pairs.submission import found_before, surest_first, wrong_allowed
from leakage_tasks.stats import intervals, power

FEWEST = FEWEST_OF_A_TIER
"""Fewer secrets than this give no interval: of those that there are, none holds as often as it says."""
One = TypeVar("One")
"""What one document gives a metric: a number, or a small record for an aggregate that needs more than that."""
Aggregate = Callable[[Sequence[One | None]], float | None]


class GuessOutcome(NamedTuple):
    """Whether a guess at one document was right, and its chance of being so at random."""

    hit: bool
    chance: float


class ExposureValue(NamedTuple):
    """A secret's exposure in bits, the most it may be where a bound is all that is known, and log2|R|."""

    exposure: float
    log2_size: float


class ExposureRange(NamedTuple):
    """A secret's exposure in bits as far as it is known, from ``least`` to ``most``, and how large any could be."""

    least: float
    most: float
    largest: float


class Guessed(NamedTuple):
    """The suffix guessed for one pair: whether it is right, how sure the attacker is and what tells equals apart."""

    right: bool
    confidence: float
    bits: float
    pair: int


class ShareEnds(NamedTuple):
    """Whether one of a share's documents counts, at the lower and at the upper end of what is known of it."""

    low: float
    high: float


class SampledShare(NamedTuple):
    """A probability, and the ``hits`` among ``draws`` of it; 0 draws if the number of hits is not known."""

    share: float
    hits: int
    draws: int


class Interval(NamedTuple):
    """How the two ends of a 95 % interval come from the values, and what kind of interval that is."""

    kind: str
    low: Aggregate[Any]
    high: Aggregate[Any]


def of_defined(aggregate: Callable[[list[One]], float | None]) -> Aggregate[One]:
    """An aggregate of the values that are defined."""

    @wraps(aggregate)
    def found(values: Sequence[One | None]) -> float | None:
        defined = [value for value in values if value is not None]
        result = aggregate(defined) if defined else None
        return None if result is None else float(result)

    return found


def _interval(kind: str, ends: Callable[[list[Any]], tuple[float, float] | tuple[None, None]]) -> Interval:
    """An interval whose ``ends`` come together."""
    return Interval(kind, of_defined(lambda values: ends(values)[0]), of_defined(lambda values: ends(values)[1]))


mean: Aggregate[float] = of_defined(statistics.fmean)
median: Aggregate[float] = of_defined(statistics.median)
maximum: Aggregate[float] = of_defined(max)
minimum: Aggregate[float] = of_defined(min)


def count(values: Sequence[object]) -> int:
    """Number of defined values."""
    return sum(value is not None for value in values)


@lru_cache(maxsize=1)
def _bootstrap(values: tuple[float, ...]) -> tuple[float, float]:
    """Both ends at once: they are asked for one after the other, and take seconds for many values."""
    return intervals.bootstrap_mean(values)


def _exposure_ends(secrets: Sequence[ExposureRange]) -> tuple[float, float] | tuple[None, None]:
    """Of the mean exposure of a few secrets; see :func:`intervals.bounded_mean`. None for fewer than ten.

    At the upper end, of a secret whose exposure is only bounded from below the most it may be counts.
    """
    if len(secrets) < FEWEST:
        return None, None
    least, most, largest = np.array(secrets).T
    return intervals.bounded_mean(least, largest)[0], intervals.bounded_mean(most, largest)[1]


def _chance_ends(chances: list[float]) -> tuple[float, float]:
    low, high = (1 - intervals.LEVEL) / 2, (1 + intervals.LEVEL) / 2
    return intervals.share_quantile(chances, low), intervals.share_quantile(chances, high)


def _clopper_pearson(hits: Sequence[float]) -> tuple[float, float]:
    return intervals.clopper_pearson(round(sum(hits)), len(hits))


def _share_ends(values: list[ShareEnds]) -> tuple[float, float]:
    low, high = zip(*values, strict=True)
    return _clopper_pearson(low)[0], _clopper_pearson(high)[1]


def _sampled_ends(values: list[SampledShare]) -> tuple[float, float]:
    """Return the bootstrap interval, widened to the Clopper-Pearson interval of all draws if all hits are known.

    A bootstrap of zeros alone is [0, 0]. With n draws of all documents together and no hit, the upper end is at least
    1 − 0.025^(1/n), about 3.7 / n (Clopper and Pearson 1934). It bounds the mean of the documents' probabilities p_i:
    with the same number of draws for each, the chance of no hit, the product of (1 − p_i)^draws, is largest where all
    p_i equal their mean.
    """
    low, high = _bootstrap(tuple(value.share for value in values))
    if not all(value.draws for value in values):
        return low, high
    hits, draws = sum(value.hits for value in values), sum(value.draws for value in values)
    least, most = intervals.clopper_pearson(hits, draws)
    return min(low, least), max(high, most)


def bootstrap_between(least: float, most: float) -> Interval:
    """Return the percentile bootstrap interval of the mean of values from ``least`` to ``most``.

    The bootstrap of n values that are all alike has no width. By Clopper and Pearson, a share of up to 1 − 0.025^(1/n)
    of further values may differ from them, as far as the bounds allow.
    """

    def ends(values: list[float]) -> tuple[float, float]:
        if len(set(values)) > 1:
            return _bootstrap(tuple(values))
        other = intervals.clopper_pearson(0, len(values))[1]
        return values[0] - other * (values[0] - least), values[0] + other * (most - values[0])

    return _interval(BOOTSTRAP.kind, ends)


CLOPPER_PEARSON = _interval("Clopper-Pearson", _clopper_pearson)
"""Of the share of values that are 1."""
SHARE_ENDS = _interval(CLOPPER_PEARSON.kind, _share_ends)
"""The same where of some documents it is not known whether they count: the lower end without them, the upper with."""
BOOTSTRAP = _interval("bootstrap", lambda values: _bootstrap(tuple(values)))
"""The percentile bootstrap's of the mean."""
SAMPLED_SHARE = _interval(BOOTSTRAP.kind, _sampled_ends)
"""The bootstrap's of the mean of probabilities, of which some are shares of draws."""
LOG_T = _interval("log-t", _exposure_ends)
"""Of the mean exposure of a few secrets."""
BY_CHANCE = _interval("", _chance_ends)
"""Where the share of hits falls in 95 % of cases, the values being their separate chances."""


@of_defined
def hit_by_chance(trials: list[GuessOutcome]) -> float:
    """Probability that guesses at random are right as often as these, or more often; exact."""
    return intervals.share_at_least(sum(trial[0] for trial in trials), [trial[1] for trial in trials])


@of_defined
def rate_shown_by(trials: list[GuessOutcome]) -> float | None:
    """The lowest rate of hits that so many trials show to be above their chances, with a power of 80 %; exact.

    None where no number of hits would show any.
    """
    chances = [trial.chance for trial in trials]
    enough = (hits for hits in range(1, len(chances) + 1) if intervals.share_at_least(hits, chances) <= power.ALPHA)
    return power.rate_shown(next(enough, len(chances) + 1), len(chances))


@of_defined
def exposure_shown_by(bits: list[float]) -> float:
    """The lowest mean exposure, in bits, that so many secrets show to be above chance, with a power of 80 %."""
    return power.least_exposure(len(bits))


def early_stop(wrong: int | None = None) -> Aggregate[Guessed]:
    """Right guesses before the ``wrong``-th wrong one, the surest first, as a share of all pairs.

    That is how the Training Data Extraction Challenge scores (Zhang et al. 2023, section 4.3: 100 wrong ones in 1,000
    pairs). Equally sure guesses go by fewer bits, then by pair. None allows :func:`wrong_allowed`. Raises OptionError.
    """
    check_wrong(wrong)
    return of_defined(
        lambda guesses: found_before(enumerate(_right(guesses)), wrong or wrong_allowed(len(guesses))) / len(guesses)
    )


def early_stop_interval(wrong: int | None = None) -> Interval:
    """Return the percentile bootstrap interval of :func:`early_stop`. Raises OptionError."""
    check_wrong(wrong)

    def ends(guesses: list[Guessed]) -> tuple[float, float]:
        allowed = wrong or wrong_allowed(len(guesses))
        return intervals.early_stop_interval(enumerate(_right(guesses)), len(guesses), allowed)

    return _interval(BOOTSTRAP.kind, ends)


def _right(guesses: list[Guessed]) -> list[bool]:
    """Whether each guess is right, the surest first."""
    return [bool(each[0]) for each in sorted(guesses, key=lambda guess: surest_first(guess[1], guess[2], guess[3]))]


def check_wrong(wrong: int | None) -> None:
    """Raise OptionError for a number of wrong guesses that cannot be allowed."""
    if wrong is not None and wrong < 1:
        raise OptionError(f"wrong guesses allowed: {wrong} is too few: allow 1 or more")
