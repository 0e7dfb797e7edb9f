"""Telling members of the training data from others by a score: AUC, and the true positive rate at few false ones.

Pure functions of scores, the higher the more like a member.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import optimize, stats
from sklearn.metrics import roc_auc_score

from leakage_tasks.stats.intervals import LEVEL, clopper_pearson

ONE_IN = 100
"""One false positive is allowed in so many others: a rate of 1 %."""
_INSIDE = 1e-12


class Estimate(NamedTuple):
    """A figure and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Flagged(NamedTuple):
    """A true positive rate: the share of members whose score is above ``threshold``, and ``hits``, their number."""

    rate: Estimate
    hits: int
    threshold: float


def auc(members: Sequence[float], others: Sequence[float]) -> Estimate:
    """Area under the ROC curve: the chance that a member scores higher than another, equal scores counting half.

    Raises ValueError without members or others.
    """
    if not members or not others:
        raise ValueError(f"{len(members)} members and {len(others)} others: the AUC needs one of each or more")
    truth = [1] * len(members) + [0] * len(others)
    value = float(roc_auc_score(truth, [*members, *others]))
    return Estimate(value, *auc_interval(value, len(members), len(others)))


def auc_interval(value: float, members: int, others: int, level: float = LEVEL) -> tuple[float, float]:
    """Two-sided interval of an AUC (Newcombe, Statistics in Medicine 25 (2006) 559, method 5).

    The θ with |θ̂ − θ| = z·sd(θ): Hanley and McNeil's variance, at θ instead of θ̂, so it has a length at θ̂ = 1 as well.
    Newcombe puts N* = (m + n)/2 − 1 in the place of both m − 1 and n − 1; here it is the larger of the two, the same
    where there are as many members as others. With far more others, and members that are known for sure or not at all,
    as canaries are, his interval is too short: of 20 members and 200 others it holds the true AUC in 83 % of cases.
    """
    z = float(stats.norm.ppf((1 + level) / 2))

    def gap(theta: float, side: int) -> float:
        return side * (theta - value) - z * _deviation(theta, members, others)

    # Where θ̂ is 0 or 1 it solves the equation itself; the end wanted is the other solution.
    low = 0.0 if value == 0 else float(optimize.brentq(gap, 0.0, min(value, 1 - _INSIDE), args=(-1,)))
    high = 1.0 if value == 1 else float(optimize.brentq(gap, max(value, _INSIDE), 1.0, args=(1,)))
    return low, high


def _deviation(theta: float, members: int, others: int) -> float:
    """Standard deviation of the AUC of so many members and others where θ is the true one."""
    star = max(members, others) - 1
    spread = 1 + star * ((1 - theta) / (2 - theta) + theta / (1 + theta))
    return math.sqrt(theta * (1 - theta) * spread / (members * others))


def tpr_at_low_fpr(members: Sequence[float], others: Sequence[float], one_in: int = ONE_IN) -> Flagged:
    """Share of members above a threshold that another is above with a chance of 1 in ``one_in`` or less.

    One more of n others' kind is above the k-th highest of them with a chance of k/(n + 1), so the threshold is the
    lowest place that this allows. What equals it is not flagged either. The interval is Clopper and Pearson's for that
    threshold. Raises ValueError for fewer than ``one_in`` others, and without members.
    """
    if len(others) < one_in:
        raise ValueError(f"{len(others)} others: a false positive rate of 1 in {one_in} takes {one_in} or more")
    threshold = sorted(others, reverse=True)[(len(others) + 1) // one_in - 1]
    hits = sum(score > threshold for score in members)
    return Flagged(Estimate(hits / len(members), *clopper_pearson(hits, len(members))), hits, threshold)
