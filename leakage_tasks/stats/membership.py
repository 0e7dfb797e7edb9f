"""Membership inference from scores: the AUC, and the true positive rate at a low false positive rate.

Pure functions of scores. A higher score makes membership in the training data more likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy import optimize, stats

from leakage_tasks.stats.intervals import LEVEL, clopper_pearson

ONE_IN = 100
"""Number of non-members per false positive: a false positive rate of 1 %."""
_INSIDE = 1e-12


class Estimate(NamedTuple):
    """A figure and the ends of its 95 % interval."""

    value: float
    low: float
    high: float


class Flagged(NamedTuple):
    """A true positive rate: the share of members whose score is above ``threshold``, and their number ``hits``."""

    rate: Estimate
    hits: int
    threshold: float


def auc(members: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the area under the ROC curve: the probability that a member scores higher than a non-member.

    Equal scores count half. Raises ValueError if there are no members or no non-members.
    """
    # It loads pandas, which takes a second; most runs and reports need no AUC.
    from sklearn.metrics import roc_auc_score

    if not members or not others:
        raise ValueError(f"{len(members)} members and {len(others)} others: the AUC needs one of each or more")
    truth = [1] * len(members) + [0] * len(others)
    value = float(roc_auc_score(truth, [*members, *others]))
    return Estimate(value, *auc_interval(value, len(members), len(others)))


def auc_interval(value: float, members: int, others: int, level: float = LEVEL) -> tuple[float, float]:
    """Return a two-sided interval of an AUC (Newcombe, Statistics in Medicine 25 (2006) 559, method 5).

    The ends are the θ with |θ̂ − θ| = z·sd(θ). Hanley and McNeil's variance is evaluated at θ instead of θ̂, so the
    interval has a positive length at θ̂ = 1 too. Newcombe replaces both m − 1 and n − 1 by N* = (m + n)/2 − 1; here N*
    is the larger of m − 1 and n − 1, which is equal for m = n. His interval is too short if there are many more
    non-members and a member is either recognized with certainty or not at all, which is the case for canaries: with 20
    members and 200 non-members it contains the true AUC in 83 % of cases.

    Args:
        value: The estimated AUC θ̂.
        members: Number m of members.
        others: Number n of non-members.
        level: Confidence level.

    Returns:
        The low and the high end.
    """
    z = float(stats.norm.ppf((1 + level) / 2))

    def gap(theta: float, side: int) -> float:
        return side * (theta - value) - z * _deviation(theta, members, others)

    # If θ̂ is 0 or 1 it solves the equation itself; the end of the interval is the other solution.
    low = 0.0 if value == 0 else float(optimize.brentq(gap, 0.0, min(value, 1 - _INSIDE), args=(-1,)))
    high = 1.0 if value == 1 else float(optimize.brentq(gap, max(value, _INSIDE), 1.0, args=(1,)))
    return low, high


def _deviation(theta: float, members: int, others: int) -> float:
    """Return the standard deviation of the estimated AUC if ``theta`` is the true AUC."""
    star = max(members, others) - 1
    spread = 1 + star * ((1 - theta) / (2 - theta) + theta / (1 + theta))
    return math.sqrt(theta * (1 - theta) * spread / (members * others))


def tpr_at_low_fpr(members: Sequence[float], others: Sequence[float], one_in: int = ONE_IN) -> Flagged:
    """Return the share of members above a threshold that non-members exceed with probability 1/``one_in`` or less.

    A new non-member exceeds the k-th highest of n non-members with probability k/(n + 1). The threshold is the score
    with the largest k that keeps this at 1/``one_in`` or less; a score equal to the threshold is not flagged. The
    interval is Clopper and Pearson's for this threshold. Raises ValueError for fewer than ``one_in`` non-members, or
    without members.
    """
    if len(others) < one_in:
        raise ValueError(f"{len(others)} others: a false positive rate of 1 in {one_in} needs {one_in} or more")
    threshold = sorted(others, reverse=True)[(len(others) + 1) // one_in - 1]
    hits = sum(score > threshold for score in members)
    return Flagged(Estimate(hits / len(members), *clopper_pearson(hits, len(members))), hits, threshold)
