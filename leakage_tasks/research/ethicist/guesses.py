"""Measures of Ethicist's trials: recall, recall_early_stop, and paired comparisons of settings.

Both sides of a comparison use the same pairs and seeds, which are resampled with replacement.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any

from leakage_tasks.attacks.suffix.finding import HEADLINE
from leakage_tasks.pairs.submission import wrong_allowed
from leakage_tasks.research.framework.group_tests import decide, decide_all
from leakage_tasks.research.framework.registry import StudyTrial
from leakage_tasks.research.framework.report import Claim, Measured

if TYPE_CHECKING:
    from leakage_tasks.core.arrays import FloatArray

Measure = Callable[[StudyTrial, "FloatArray"], "FloatArray"]
"""A function that computes a value of one trial for each weighting of its pairs, from ``[draws, pairs]`` to
``[draws]``; NaN if undefined."""
Term = tuple[float, Sequence[StudyTrial], Measure]
"""A coefficient, the trials of one setting (one per seed), and a measure."""
Side = tuple[Sequence[StudyTrial], Measure]
"""The trials of one setting (one per seed), and a measure."""
RESAMPLES = 2000
ROUNDING = 1e-9
"""Smaller differences are rounding errors."""


def columns(trial: StudyTrial, confidence: str, view: str = HEADLINE) -> dict[str, list[Any]]:
    """Return the columns of one view by one confidence."""
    by_column: dict[str, list[Any]] = trial.result["views"][view][confidence]
    return by_column


def recall(confidence: str = "calibrated", view: str = HEADLINE) -> Measure:
    """Measure the share of suffixes that a confidence's guess reproduces token for token."""

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        return _share(weights, columns(trial, confidence, view)["right"])

    return measure


def recall_at(k: int, confidence: str = "calibrated", view: str = HEADLINE) -> Measure:
    """Measure the share of suffixes among the ``k`` guesses with the highest confidence."""

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        ranks = columns(trial, confidence, view)["place"]
        return _share(weights, [rank is not None and rank <= k for rank in ranks])

    return measure


def early_stop(confidence: str = "calibrated", view: str = HEADLINE, ordered_by: str | None = None) -> Measure:
    """Measure the share guessed right before the allowed number of wrong guesses, most confident first (section 4.3).

    ``ordered_by`` sorts the guesses by another confidence.
    """

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        import numpy as np

        guesses = columns(trial, confidence, view)
        confidences = columns(trial, ordered_by, view)["of_headline"] if ordered_by else guesses["confidence"]
        order = np.lexsort((guesses["bits"], -np.array(confidences)))
        right = np.array(guesses["right"], dtype=bool)[order]
        sorted_weights = weights[:, order]
        wrong = (sorted_weights * ~right).cumsum(axis=1)
        return (sorted_weights * (right & (wrong < wrong_allowed(len(order))))).sum(axis=1) / weights.sum(axis=1)

    return measure


MEASURES: dict[str, Callable[..., Measure]] = {"recall": recall, "early stop": early_stop}
"""The paper's two measures, by the names of their columns."""


def mean_of(field: str, *, right: bool, scale: float = 1.0, confidence: str = "calibrated") -> Measure:
    """Measure the mean of a column over right or wrong guesses, times ``scale``; NaN if there are none."""

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        import numpy as np

        guesses = columns(trial, confidence)
        chosen = weights * (np.array(guesses["right"], dtype=bool) == right)
        count = chosen.sum(axis=1)
        total = chosen @ np.array(guesses[field], dtype=np.float64) * scale
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    return measure


def _share(weights: FloatArray, hits: Sequence[int]) -> FloatArray:
    import numpy as np

    shares: FloatArray = weights @ np.array(hits, dtype=np.float64) / weights.sum(axis=1)
    return shares


def value(trial: StudyTrial, measure: Measure) -> float:
    """Return a measure of a trial with equal weights."""
    import numpy as np

    return float(measure(trial, np.ones((1, _pairs(trial))))[0])


def measured(trials: Sequence[StudyTrial], measure: Measure, most: float = 1.0) -> Measured | None:
    """Return a measure's mean over seeds with interval and standard deviation, or None if it is undefined."""
    values = [value(trial, measure) for trial in trials]
    known = [item for item in values if math.isfinite(item)]
    return Measured.over_seeds(known, most) if known else None


@dataclass(frozen=True)
class MeasureContrast:
    """A weighted sum of measures, its 95 % bootstrap interval, and p for the hypothesis that it is 0.

    p is from a normal distribution with the standard deviation of the bootstrap draws, None without draws.
    """

    value: float
    low: float
    high: float
    p: float | None = None

    def above(self, least: float = 0.0) -> bool | None:
        """Return True if the interval is above ``least``, False if it is below, else None."""
        return decide(self.low > least + ROUNDING, self.high < least - ROUNDING)

    def __str__(self) -> str:
        if math.isnan(self.low):
            return "not measured"
        value, low, high = (0.0 if abs(bound) < ROUNDING else bound for bound in (self.value, self.low, self.high))
        return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def contrast(*terms: Term) -> MeasureContrast:
    """Return the sum of coefficient × mean over seeds, with pairs and seeds resampled jointly for all terms.

    The trials of all terms have equal seeds, in order, and equal pairs. Bounds are NaN if a measure is undefined.
    """
    import numpy as np

    trials = terms[0][1]
    pairs, seeds = _pairs(trials[0]), len(trials)
    weights, chosen = _resample_weights(pairs), _resample_weights(seeds)
    sums, point = np.zeros((RESAMPLES, seeds)), 0.0
    for coefficient, group, measure in terms:
        sums += coefficient * np.stack([measure(trial, weights) for trial in group], axis=1)
        point += coefficient * fmean(value(trial, measure) for trial in group)
    resampled = (sums * chosen).sum(axis=1) / seeds
    known = resampled[np.isfinite(resampled)]
    if not len(known):
        return MeasureContrast(point, math.nan, math.nan)
    low, high = np.quantile(known, [0.025, 0.975])
    # The share of draws beyond 0 is at least 1 / RESAMPLES, which is too coarse for a correction for many tests.
    error = float(known.std())
    p = math.erfc(abs(point) / error / math.sqrt(2)) if error > ROUNDING else float(abs(point) <= ROUNDING)
    return MeasureContrast(point, float(low), float(high), p)


def difference(one: Side, other: Side) -> MeasureContrast:
    """Return the contrast of one setting minus another."""
    return contrast((1.0, *one), (-1.0, *other))


def more(words: str, one: Side, other: Side) -> Claim:
    """Return the claim that one setting has a higher value than another."""
    change = difference(one, other)
    sides = [fmean([value(trial, measure) for trial in trials]) for trials, measure in (one, other)]
    return Claim(words, change.above(), f"{sides[0]:.3f} against {sides[1]:.3f}, difference {change}", change.p)


def above(words: str, contrasted: MeasureContrast, label: str, least: float = 0.0) -> Claim:
    """Return the claim that a contrast is above ``least``."""
    return Claim(words, contrasted.above(least), f"{label} {contrasted}", contrasted.p if least == 0 else None)


def every(words: str, contrasts: Mapping[str, MeasureContrast]) -> Claim:
    """Return the claim that all contrasts are above 0: refuted if one is below, inconclusive if one is undecided.

    p is the largest of all. If a contrast is below 0, p is the smallest of these, times the number of contrasts.
    """
    verdict = decide_all([item.above() for item in contrasts.values()])
    known = [item.p for item in contrasts.values() if item.p is not None]
    below = [item.p for item in contrasts.values() if item.p is not None and item.above() is False]
    p = min(1.0, min(below) * len(contrasts)) if below else max(known) if len(known) == len(contrasts) else None
    return Claim(words, verdict, "; ".join(f"{name} {item}" for name, item in contrasts.items()), p)


def intervals(trials: Sequence[StudyTrial]) -> str:
    """Describe the intervals, as a sentence for the table's notes."""
    return (
        f"Claims are judged by paired differences with 95 % intervals from {RESAMPLES:,} bootstrap draws of the "
        f"{_pairs(trials[0])} pairs and the seeds; intervals in the table are Student's over seeds alone."
    )


@lru_cache(maxsize=4)
def _resample_weights(count: int) -> FloatArray:
    """Return how often each of ``count`` items occurs in each resample with replacement, ``[draws, count]``."""
    import numpy as np

    generator = np.random.default_rng(count)
    return generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(np.float64)


def _pairs(trial: StudyTrial) -> int:
    return len(trial.result["p_z_bits"])
