"""Reading trials of Ethicist: recall, recall_early_stop, and whether one setting really beats another.

Comparisons are paired: both sides are looked at on the same pairs and seeds, drawn anew with replacement.
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
"""A figure of one trial for each of several weightings of its pairs: ``[draws, pairs]`` to ``[draws]``; NaN if none."""
Term = tuple[float, Sequence[StudyTrial], Measure]
"""A coefficient, the trials of one setting, a seed each, and what is measured on them."""
Side = tuple[Sequence[StudyTrial], Measure]
"""The trials of one setting, a seed each, and what is measured on them."""
RESAMPLES = 2000
ROUNDING = 1e-9
"""Differences smaller than this are those of rounding."""


def columns(trial: StudyTrial, confidence: str, view: str = HEADLINE) -> dict[str, list[Any]]:
    """The columns of one view by one confidence."""
    found: dict[str, list[Any]] = trial.result["views"][view][confidence]
    return found


def recall(confidence: str = "calibrated", view: str = HEADLINE) -> Measure:
    """The share of suffixes that the guess of a confidence is, token for token."""

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        return _share(weights, columns(trial, confidence, view)["right"])

    return measure


def recall_at(k: int, confidence: str = "calibrated", view: str = HEADLINE) -> Measure:
    """The share of suffixes among the ``k`` guesses a confidence is surest of."""

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        places = columns(trial, confidence, view)["place"]
        return _share(weights, [place is not None and place <= k for place in places])

    return measure


def early_stop(confidence: str = "calibrated", view: str = HEADLINE, ordered_by: str | None = None) -> Measure:
    """The share of suffixes guessed right before too many wrong ones, surest first (section 4.3).

    ``ordered_by`` sorts the same guesses by another confidence.
    """

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        import numpy as np

        own = columns(trial, confidence, view)
        sure = columns(trial, ordered_by, view)["of_headline"] if ordered_by else own["confidence"]
        order = np.lexsort((own["bits"], -np.array(sure)))
        right = np.array(own["right"], dtype=bool)[order]
        sorted_weights = weights[:, order]
        wrong = (sorted_weights * ~right).cumsum(axis=1)
        return (sorted_weights * (right & (wrong < wrong_allowed(len(order))))).sum(axis=1) / weights.sum(axis=1)

    return measure


MEASURES: dict[str, Callable[..., Measure]] = {"recall": recall, "early stop": early_stop}
"""Both figures of the paper, by the names of their columns."""


def mean_of(field: str, *, right: bool, scale: float = 1.0, confidence: str = "calibrated") -> Measure:
    """The mean of a column over the right guesses, or the wrong ones, times ``scale``; NaN where there are none."""

    def measure(trial: StudyTrial, weights: FloatArray) -> FloatArray:
        import numpy as np

        own = columns(trial, confidence)
        chosen = weights * (np.array(own["right"], dtype=bool) == right)
        count = chosen.sum(axis=1)
        total = chosen @ np.array(own[field], dtype=np.float64) * scale
        return np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)

    return measure


def _share(weights: FloatArray, hits: Sequence[int]) -> FloatArray:
    import numpy as np

    shares: FloatArray = weights @ np.array(hits, dtype=np.float64) / weights.sum(axis=1)
    return shares


def value(trial: StudyTrial, measure: Measure) -> float:
    """A measure of a trial as it is."""
    import numpy as np

    return float(measure(trial, np.ones((1, _pairs(trial))))[0])


def measured(trials: Sequence[StudyTrial], measure: Measure, most: float = 1.0) -> Measured | None:
    """A measure's mean over seeds, with its interval and standard deviation; None where there is none."""
    values = [value(trial, measure) for trial in trials]
    known = [each for each in values if math.isfinite(each)]
    return Measured.over_seeds(known, most) if known else None


@dataclass(frozen=True)
class MeasureContrast:
    """A weighted sum of measures, its 95 % bootstrap interval, and p of it being 0.

    p is the normal distribution's, with the draws' standard deviation; None where there are none.
    """

    value: float
    low: float
    high: float
    p: float | None = None

    def above(self, least: float = 0.0) -> bool | None:
        """Whether it is above ``least``; None where the interval does not tell."""
        return decide(self.low > least + ROUNDING, self.high < least - ROUNDING)

    def __str__(self) -> str:
        if math.isnan(self.low):
            return "not measured"
        value, low, high = (0.0 if abs(each) < ROUNDING else each for each in (self.value, self.low, self.high))
        return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def contrast(*terms: Term) -> MeasureContrast:
    """The sum of coefficient × mean over seeds, with pairs and seeds drawn anew for all terms alike.

    The trials of all terms go by the same seeds, in order, and the same pairs. Bounds are NaN where a measure is not
    defined.
    """
    import numpy as np

    trials = terms[0][1]
    pairs, seeds = _pairs(trials[0]), len(trials)
    weights, chosen = _drawn_anew(pairs), _drawn_anew(seeds)
    sums, point = np.zeros((RESAMPLES, seeds)), 0.0
    for coefficient, own, measure in terms:
        sums += coefficient * np.stack([measure(trial, weights) for trial in own], axis=1)
        point += coefficient * fmean(value(trial, measure) for trial in own)
    drawn = (sums * chosen).sum(axis=1) / seeds
    known = drawn[np.isfinite(drawn)]
    if not len(known):
        return MeasureContrast(point, math.nan, math.nan)
    low, high = np.quantile(known, [0.025, 0.975])
    # Shares of the draws beyond 0 would end at 1 / RESAMPLES, too coarse to bear a correction for many tests.
    error = float(known.std())
    p = math.erfc(abs(point) / error / math.sqrt(2)) if error > ROUNDING else float(abs(point) <= ROUNDING)
    return MeasureContrast(point, float(low), float(high), p)


def difference(one: Side, other: Side) -> MeasureContrast:
    """How much more one setting has than another."""
    return contrast((1.0, *one), (-1.0, *other))


def more(words: str, one: Side, other: Side) -> Claim:
    """The claim that one setting has more than another."""
    found = difference(one, other)
    sides = [fmean([value(trial, measure) for trial in trials]) for trials, measure in (one, other)]
    return Claim(words, found.above(), f"{sides[0]:.3f} against {sides[1]:.3f}, difference {found}", found.p)


def above(words: str, found: MeasureContrast, what: str, least: float = 0.0) -> Claim:
    """The claim that a contrast is above ``least``."""
    return Claim(words, found.above(least), f"{what} {found}", found.p if least == 0 else None)


def every(words: str, found: Mapping[str, MeasureContrast]) -> Claim:
    """The claim that all of several contrasts are above 0: not so if one is not, untold if one is.

    p is the largest of all; where one is below 0, the least of such, times their number.
    """
    verdict = decide_all([each.above() for each in found.values()])
    known = [each.p for each in found.values() if each.p is not None]
    below = [each.p for each in found.values() if each.p is not None and each.above() is False]
    p = min(1.0, min(below) * len(found)) if below else max(known) if len(known) == len(found) else None
    return Claim(words, verdict, "; ".join(f"{name} {each}" for name, each in found.items()), p)


def intervals(trials: Sequence[StudyTrial]) -> str:
    """What intervals mean, as a sentence for the table's notes."""
    return (
        f"Claims go by paired differences whose 95 % intervals come from {RESAMPLES:,} bootstrap draws of the "
        f"{_pairs(trials[0])} pairs and the seeds; intervals in the table are Student's over seeds alone."
    )


@lru_cache(maxsize=4)
def _drawn_anew(count: int) -> FloatArray:
    """How often each of ``count`` things comes in each draw of as many with replacement, ``[draws, count]``."""
    import numpy as np

    generator = np.random.default_rng(count)
    return generator.multinomial(count, np.full(count, 1 / count), size=RESAMPLES).astype(np.float64)


def _pairs(trial: StudyTrial) -> int:
    return len(trial.result["p_z_bits"])
