"""Membership inference from scores: the AUC, and the true positive rate at a low false positive rate.

Pure functions of scores. A higher score makes membership in the training data more likely.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.clusters import effective_number
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


def auc_interval(value: float, members: float, others: float) -> tuple[float, float]:
    """Return a two-sided 95 % interval of an AUC (Newcombe, Statistics in Medicine 25 (2006) 559, method 5).

    The ends are the θ with |θ̂ − θ| = z·sd(θ). Hanley and McNeil's variance is evaluated at θ instead of θ̂, so the
    interval has a positive length at θ̂ = 1 too. Newcombe replaces both m − 1 and n − 1 by N* = (m + n)/2 − 1; here N*
    is the larger of m − 1 and n − 1, which is equal for m = n. His interval is too short if there are many more
    non-members and a member is either recognized with certainty or not at all, which is the case for canaries: with 20
    members and 200 non-members it contains the true AUC in 83 % of cases.

    Args:
        value: The estimated AUC θ̂.
        members: Number m of members; an effective number may have a fraction.
        others: Number n of non-members.

    Returns:
        The low and the high end.
    """
    z = float(stats.norm.ppf((1 + LEVEL) / 2))

    def gap(theta: float, side: int) -> float:
        return side * (theta - value) - z * _deviation(theta, members, others)

    # If θ̂ is 0 or 1 it solves the equation itself; the end of the interval is the other solution.
    low = 0.0 if value == 0 else float(optimize.brentq(gap, 0.0, min(value, 1 - _INSIDE), args=(-1,)))
    high = 1.0 if value == 1 else float(optimize.brentq(gap, max(value, _INSIDE), 1.0, args=(1,)))
    return low, high


def _deviation(theta: float, members: float, others: float) -> float:
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


def threshold_ends(
    others: Sequence[float], one_in: int = ONE_IN, clusters: Sequence[int] | None = None
) -> tuple[float, float]:
    """Return a high and a low end of the threshold that 1/``one_in`` of all non-members exceed, from some of them.

    The number of n non-members above that threshold is binomial, so their k-th highest score is above it with the
    probability of k or more. Each end is on the wrong side with probability 2.5 % or less; it is infinite if ``others``
    are too few for a finite one. Scores in clusters count as their effective number, as in
    :func:`~leakage_tasks.stats.clusters.clustered_share`, for the share above the threshold or above the median,
    whichever is smaller: few scores above a threshold may hide how much clusters differ.

    Args:
        others: Scores of non-members ``[n]``.
        one_in: Number of non-members per false positive.
        clusters: Cluster of each non-member ``[n]``; None for independent scores.
    """
    ordered, tail, rate = sorted(others, reverse=True), (1 - LEVEL) / 2, 1 / one_in
    number = float(len(ordered))
    if clusters is not None:
        limits = ordered[int(number * rate)], ordered[len(ordered) // 2]
        number = min(effective_number([float(score > limit) for score in others], clusters) for limit in limits)
    hits = np.arange(len(ordered) + 1) * number / len(ordered)
    # The probabilities of this number of hits or fewer, and of this number or more, also if it is not whole.
    fewer = special.betainc(number - hits[:-1], hits[:-1] + 1, 1 - rate)
    more = special.betainc(hits[1:], number - hits[1:] + 1, rate)
    first, last = int((fewer < tail).sum()), int((more > tail).sum())
    return ordered[first - 1] if first else math.inf, ordered[last] if last < len(ordered) else -math.inf


def placements(members: Sequence[float], others: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    """Return the share of others that each member exceeds ``[m]``, and of members that exceed each other ``[n]``.

    Equal scores count half. The mean of either array is the AUC (DeLong, DeLong and Clarke-Pearson 1988).
    """
    first, second = np.asarray(members, dtype=np.float64), np.asarray(others, dtype=np.float64)

    def below(values: FloatArray, among: FloatArray) -> FloatArray:
        ordered = np.sort(among)
        ends = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
        return np.asarray(sum(ends)) / (2 * len(among))

    return below(first, second), 1 - below(second, first)


def clustered_auc(
    members: Sequence[float],
    others: Sequence[float],
    member_clusters: Sequence[int],
    other_clusters: Sequence[int],
) -> Estimate:
    """Return the AUC with an interval for scores that depend on each other within a cluster.

    It is the interval of :func:`auc_interval` for the effective numbers of members and others: both divided by the
    design effect, the variance of the AUC by cluster (Obuchowski, Biometrics 53 (1997) 567) over its variance for
    independent scores (DeLong), corrected for the degrees of freedom of both. The design effect is at least 1. If each
    score has a cluster of its own, the interval equals that of :func:`auc`. If the variance by cluster is unknown, the
    effective numbers are the numbers of clusters: a class has one cluster only, or all members exceed all others, or
    none does.

    Args:
        members: Scores of the members ``[m]``.
        others: Scores of the non-members ``[n]``.
        member_clusters: Cluster of each member ``[m]``; a cluster may hold members and others.
        other_clusters: Cluster of each non-member ``[n]``.

    Returns:
        The AUC and the ends of its 95 % interval.

    Raises:
        ValueError: There are no members or no others.
    """
    plain = auc(members, others)
    sizes = len(set(member_clusters)), len(set(other_clusters))
    both = set(member_clusters) & set(other_clusters)
    if sizes == (len(members), len(others)) and not both:
        return plain
    above, exceeded = placements(members, others)
    effect = _design_effect(above - plain.value, exceeded - plain.value, member_clusters, other_clusters)
    numbers = sizes if effect is None else (len(members) / effect, len(others) / effect)
    return Estimate(plain.value, *auc_interval(plain.value, *(max(2.0, number) for number in numbers)))


def paired_auc(members: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the AUC with an interval for pairs of a member and a non-member whose scores depend on each other.

    It is the interval of :func:`auc_interval` for the effective number of pairs: their number over the variance of the
    AUC by pair (DeLong, DeLong and Clarke-Pearson 1988) in units of its variance for independent scores, corrected for
    the degrees of freedom. If the variance by pair is 0, scores count as independent.

    Args:
        members: Score of the member of each pair ``[n]``.
        others: Score of the non-member of each pair ``[n]``.

    Raises:
        ValueError: There are no pairs.
    """
    plain, number = auc(members, others), len(members)
    placed = [values - plain.value for values in placements(members, others)]
    of_pairs = _sample_variance(placed[0] + placed[1])
    if number == 1 or of_pairs < _INSIDE:
        return plain
    independent = [_sample_variance(deviations) for deviations in placed]
    correction = (_quantile([of_pairs], [number]) / _quantile(independent, [number, number])) ** 2
    effective = max(2.0, number * sum(independent) / of_pairs / correction)
    return Estimate(plain.value, *auc_interval(plain.value, effective, effective))


def _design_effect(
    above: FloatArray, exceeded: FloatArray, member_clusters: Sequence[int], other_clusters: Sequence[int]
) -> float | None:
    """Return the variance of an AUC by cluster over that of independent scores, at least 1; None if it is unknown.

    ``above`` and ``exceeded`` are the deviations of :func:`placements` from the AUC.
    """
    m, n = len(above), len(exceeded)
    which: IntArray = np.unique([*member_clusters, *other_clusters], return_inverse=True)[1]
    sums_above = np.bincount(which[:m], above, minlength=which.max() + 1)
    sums_exceeded = np.bincount(which[m:], exceeded, minlength=which.max() + 1)
    groups = [len(np.unique(part)) for part in (which[:m], which[m:])]
    independent = [_sample_variance(above) / m, _sample_variance(exceeded) / n]
    if min(groups) == 1 or not sum(independent):
        return None
    by_cluster = [
        count / (count - 1) * float((sums**2).sum()) / number**2
        for count, sums, number in zip(groups, (sums_above, sums_exceeded), (m, n), strict=True)
    ]
    total = len(sums_above)
    joint = 2 * total / (total - 1) * float((sums_above * sums_exceeded).sum()) / (m * n)
    if not sum(by_cluster):
        return 1.0
    correction = (_quantile(by_cluster, groups) / _quantile(independent, [m, n])) ** 2
    return max(1.0, (sum(by_cluster) + joint) / sum(independent) * correction)


def _quantile(variances: Sequence[float], counts: Sequence[int]) -> float:
    """Return Student's quantile for a sum of variances of this many values each (Satterthwaite's degrees)."""
    degrees = sum(variances) ** 2 / sum(part**2 / (count - 1) for part, count in zip(variances, counts, strict=True))
    return float(stats.t.ppf((1 + LEVEL) / 2, degrees))


def _sample_variance(deviations: FloatArray) -> float:
    return float((deviations**2).sum()) / max(len(deviations) - 1, 1)
