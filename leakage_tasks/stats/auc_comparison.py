"""Comparison of an attack's AUC with the AUC of blind baselines on the same texts, with whole clusters resampled.

Pure functions of scores. A higher score makes membership more likely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.stats.intervals import parts, percentiles
from leakage_tasks.stats.membership import Estimate, auc_interval
from leakage_tasks.stats.multiple import holm

Ends = tuple[float, float]
"""The ends of an interval."""
RESAMPLES = 2000
FOLDS = 5
"""Number of folds of the cross-validation that the baselines' scores are from."""
FEWEST_RESAMPLED = 3
"""Minimum number of clusters of a class for intervals and p-values from resamples. With a single one, that class does
not vary in resamples, and p-values of attacks at chance were 5 % or less in 20 to 30 % of simulations."""


class BlindComparison(NamedTuple):
    """An attack compared with the blind baselines.

    ``best`` names the baseline with the highest AUC, and ``baselines`` holds the AUC of each. ``blind_p`` is the
    one-sided p-value of all baselines at chance, corrected for their number. ``difference`` is the AUC of the attack
    minus that of ``best``. ``p`` is the one-sided p-value of the attack not above every baseline and chance: the
    largest of their p-values.
    """

    best: str
    baselines: dict[str, Estimate]
    blind_p: float
    difference: Estimate
    p: float


def compare_with_blind(
    attacks: Mapping[str, Sequence[float]],
    blind: Mapping[str, Sequence[float]],
    members: Sequence[bool],
    clusters: Sequence[int],
) -> dict[str, BlindComparison]:
    """Compare the AUC of each attack with that of each blind baseline on the same texts.

    The intervals are percentile intervals of a paired bootstrap of whole clusters with a fixed seed. Scores of a
    cross-validation depend on each other through their training sets, so the deviations of a baseline's resampled AUC
    are multiplied by :func:`cross_validation_spread`. Resamples of classes that are fully separated have no spread, and
    a class with fewer than :data:`FEWEST_RESAMPLED` clusters gives them too little: the interval of an AUC is then
    Newcombe's for the numbers of clusters, and that of a difference follows from two such intervals. In such a class
    only full separation has a p-value below 1.

    The attack must be above every baseline, each at the full level: the best baseline in the population is one of
    them, so the choice of the best one needs no further correction (intersection-union test, Berger 1982). The p-values
    are not corrected for the number of attacks.

    Args:
        attacks: The scores of each attack, ``[n]`` each.
        blind: The scores of each baseline, ``[n]`` each.
        members: True for members, ``[n]``.
        clusters: The cluster of each text, ``[n]``.

    Returns:
        The comparison of each attack. It depends on the ranks of the scores and on the clusters, not on the order of
        the texts or on the other attacks.

    Raises:
        ValueError: If there are no members, no non-members or no baselines.
    """
    if not blind or not any(members) or all(members):
        raise ValueError("a comparison needs members, non-members and a blind baseline")
    names, number = sorted(blind), len(attacks)
    scores = np.array([*attacks.values(), *(blind[name] for name in names)], np.float64)
    inside, which = np.asarray(members, np.bool_), np.asarray(clusters)
    values, resampled = resampled_aucs(scores, inside, which)
    numbers = _clusters_of(inside, which)
    unresampled, test = _newcombe(scores, values, *numbers), _Test.of(numbers)
    values_of, resampled_of = values[number:], resampled[:, number:]
    resampled_of = values_of + cross_validation_spread() * (resampled_of - values_of)
    best = int(np.argmax(values_of))
    baselines = {
        name: _clipped(test.estimate(values_of[index], resampled_of[:, index], unresampled[number + index]), 0.0)
        for index, name in enumerate(names)
    }
    blind_p = min(holm([test.one_sided(row - 0.5) for row in resampled_of.T]))
    comparisons = {}
    for index, attack in enumerate(attacks):
        gaps = resampled[:, [index]] - resampled_of
        attack_ends, blind_ends = unresampled[index], unresampled[number + best]
        widest = attack_ends[0] - blind_ends[1], attack_ends[1] - blind_ends[0]
        comparisons[attack] = BlindComparison(
            names[best],
            baselines,
            blind_p,
            _clipped(test.estimate(values[index] - values_of[best], gaps[:, best], widest), -1.0),
            max(map(test.one_sided, (resampled[:, index] - 0.5, *gaps.T))),
        )
    return comparisons


def cross_validation_spread(folds: int = FOLDS) -> float:
    """Return √(1 + K/(K − 1)) for K folds (Nadeau and Bengio, Machine Learning 52 (2003) 239).

    This is the standard deviation of the mean result of a cross-validation over that of independent results.
    """
    return float(np.sqrt(1 + folds / (folds - 1)))


def resampled_aucs(scores: FloatArray, members: BoolArray, clusters: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the AUC of each row of ``scores``, and its values in resamples of whole clusters.

    Clusters of only members, of only non-members and of both are resampled separately. Each row sees the same
    resamples.

    Args:
        scores: ``[rows, n]``.
        members: True for members, ``[n]``.
        clusters: The cluster of each text, ``[n]``.

    Returns:
        The AUCs ``[rows]``, and the resampled AUCs ``[RESAMPLES, rows]``.
    """
    _, which = np.unique(clusters, return_inverse=True)
    strata = _strata(members, which)
    weighted = [_WeightedAuc(row, members) for row in scores]
    values = np.array([of(np.ones((1, len(members))))[0] for of in weighted])
    generator, resampled = np.random.default_rng(0), []
    for size in parts(RESAMPLES, len(members)):
        weights = _cluster_weights(strata, size, generator)[:, which]
        resampled.append(np.stack([of(weights) for of in weighted], axis=1))
    return values, np.concatenate(resampled)


def _strata(members: BoolArray, which: IntArray) -> IntArray:
    """Return 0 for each cluster of only non-members, 2 for one of only members, 1 for one of both."""
    sizes = np.bincount(which)
    inside = np.bincount(which, weights=members)
    return np.where(inside == 0, 0, np.where(inside == sizes, 2, 1))


def _cluster_weights(strata: IntArray, number: int, generator: np.random.Generator) -> FloatArray:
    """Return how often each cluster is in each of ``number`` resamples: ``[number, clusters]``."""
    weights = np.zeros((number, len(strata)))
    for stratum in range(3):
        (places,) = np.nonzero(strata == stratum)
        if len(places):
            drawn = generator.integers(len(places), size=(number, len(places)))
            flat = (np.arange(number)[:, None] * len(places) + drawn).ravel()
            weights[:, places] = np.bincount(flat, minlength=number * len(places)).reshape(number, -1)
    return weights


class _WeightedAuc:
    """The AUC of fixed scores as a function of the texts' weights."""

    def __init__(self, scores: FloatArray, members: BoolArray) -> None:
        (self.inside,) = np.nonzero(members)
        (outside,) = np.nonzero(~members)
        self.outside = outside[np.argsort(scores[outside], kind="stable")]
        ordered = scores[self.outside]
        self.ends = [np.searchsorted(ordered, scores[self.inside], side) for side in ("left", "right")]

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return the AUC for each row of weights ``[rows, n]``; 0.5 if the members or the non-members have none."""
        inside, below = weights[:, self.inside], np.zeros((len(weights), len(self.outside) + 1))
        np.cumsum(weights[:, self.outside], axis=1, out=below[:, 1:])
        won = sum(np.einsum("rm,rm->r", inside, below[:, end]) for end in self.ends) / 2
        pairs = inside.sum(axis=1) * below[:, -1]
        return np.divide(won, pairs, out=np.full(len(weights), 0.5), where=pairs > 0)


class _Test(NamedTuple):
    """The use of resampled values.

    ``smallest`` is the share of assignments of classes to clusters that separate the classes as fully. ``resampled`` is
    False if a class has too few clusters for a spread.
    """

    smallest: float
    resampled: bool

    @classmethod
    def of(cls, numbers: tuple[int, int]) -> _Test:
        """Return the test for these numbers of clusters of both classes."""
        return cls(1 / math.comb(sum(numbers), numbers[0]), min(numbers) >= FEWEST_RESAMPLED)

    def one_sided(self, resampled: FloatArray) -> float:
        """Return the share of resampled values that are not above 0; the observed value counts as one of these.

        Values without spread are of classes that are fully separated: their p-value is at least ``smallest``.
        """
        if not np.ptp(resampled):
            return max(_share_below(resampled), self.smallest)
        return _share_below(resampled) if self.resampled else 1.0

    def estimate(self, value: float, resampled: FloatArray, unresampled: Ends) -> Estimate:
        """Return the percentile interval of the resampled values, or ``unresampled`` if their spread is unknown."""
        known = self.resampled and np.ptp(resampled)
        return Estimate(float(value), *(percentiles(resampled) if known else unresampled))


def _share_below(resampled: FloatArray) -> float:
    return float((1 + (resampled <= 0).sum()) / (1 + len(resampled)))


def _clusters_of(members: BoolArray, clusters: IntArray) -> tuple[int, int]:
    """Return the numbers of clusters with members and with non-members."""
    inside, outside = (len(np.unique(clusters[members == of])) for of in (True, False))
    return inside, outside


def _newcombe(scores: FloatArray, values: FloatArray, inside: int, outside: int) -> list[Ends]:
    """Return Newcombe's interval of each row's AUC for ``inside`` clusters with members and ``outside`` with others.

    Equal scores of all texts distinguish nothing, so their AUC is exactly 0.5.
    """
    return [
        auc_interval(float(value), inside, outside) if np.ptp(row) else (0.5, 0.5)
        for row, value in zip(scores, values, strict=True)
    ]


def _clipped(estimate: Estimate, least: float) -> Estimate:
    return Estimate(estimate.value, max(estimate.low, least), min(estimate.high, 1.0))
