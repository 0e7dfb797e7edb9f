"""Dataset inference: is a set of texts, as a whole, in the training data of a model?

Maini, Jia, Papernot and Dziedzic (2024), "LLM Dataset Inference: Did you train on my dataset?": half of the suspected
texts and half of the texts that the model never saw (split A) fit a linear combination of the attacks' scores, and the
other halves (split B) test if suspected texts score higher. Four things differ from the published code:

- The normalization and the limits of outliers are computed from split A alone, so that split B stays untouched.
- Splits keep clusters whole, and a cluster's mean score is one value of the test.
- The p-values of several splits are combined to one that is valid under any dependence: twice their median. Their mean,
  as published, is no p-value.
- A permutation test of the same values is computed next to Welch's t-test.

Pure functions of scores. A higher score makes membership more likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray
from leakage_tasks.stats.intervals import parts

SPLITS = 25
"""Number of random splits into A and B."""
HALVINGS = 20
"""Number of random halvings of the non-members that check for false positives."""
OUTLIERS = 0.025
"""Share of values that are clipped at each end, as published."""
RIDGE = 1e-3
"""Penalty per text of the linear regression. It decides between attacks with nearly equal scores."""
PERMUTATIONS = 999
FEWEST_CLUSTERS = 4
"""Minimum number of clusters of each class: two per split, without which no test has a variance."""


class DatasetTest(NamedTuple):
    """One-sided p-values of suspected texts not scoring higher: Welch's t-test and the permutation test."""

    welch: float
    permutation: float

    @property
    def p(self) -> float:
        """The larger of both p-values."""
        return max(self.welch, self.permutation)


class NullCheck(NamedTuple):
    """The test on halves of the non-members: twice the median p-value, and the share of halvings with p ≤ 5 %."""

    p: float
    false_positives: float
    halvings: int


def dataset_test(
    scores: Sequence[Sequence[float]],
    members: Sequence[bool],
    clusters: Sequence[int],
    seed: int = 0,
    splits: int = SPLITS,
    spread: float = 1.0,
) -> DatasetTest:
    """Test if the suspected texts were in the training data.

    Args:
        scores: The scores of each attack, ``[attacks, n]``.
        members: True for suspected texts, ``[n]``.
        clusters: The cluster of each text, ``[n]``.
        seed: The random seed of the splits.
        splits: Number of splits into A and B.
        spread: Factor by which the difference of the means varies more than that of independent values. Scores of a
            cross-validation depend on each other: see :func:`~.auc_comparison.cross_validation_spread`.

    Returns:
        p-values, each twice the median over the splits. The order of texts within clusters does not change them.

    Raises:
        ValueError: If a class has fewer than :data:`FEWEST_CLUSTERS` clusters, or there are no attacks.
    """
    units = Units.of(scores, members, clusters)
    generator = np.random.default_rng([seed, 1])
    tests = [units.test(units.half(generator), generator, spread) for _ in range(splits)]
    welch, permutation = zip(*tests, strict=True)
    return DatasetTest(twice_the_median(welch), twice_the_median(permutation))


def null_check(scores: Sequence[Sequence[float]], members: Sequence[bool], clusters: Sequence[int]) -> NullCheck:
    """Run the test on texts that the model never saw: a random half of the non-members in place of the suspected texts.

    Arguments as for :func:`dataset_test`. A correct procedure has p ≤ 5 % in one halving of twenty.

    Raises:
        ValueError: If the non-members have fewer than twice :data:`FEWEST_CLUSTERS` clusters.
    """
    outside = ~np.asarray(members, np.bool_)
    unseen = np.asarray(scores, np.float64)[:, outside]
    names, which = np.unique(np.asarray(clusters)[outside], return_inverse=True)
    number = len(names)
    if number < 2 * FEWEST_CLUSTERS:
        raise ValueError(f"{number} clusters of non-members: the check needs {2 * FEWEST_CLUSTERS} or more")
    generator, p_values = np.random.default_rng([0, 2]), []
    for _ in range(HALVINGS):
        chosen = np.isin(which, generator.permutation(number)[: number // 2])
        half = Units.of(unseen, chosen, which)
        p_values.append(DatasetTest(*half.test(half.half(generator), generator)).p)
    return NullCheck(twice_the_median(p_values), float(np.mean(np.array(p_values) <= 0.05)), HALVINGS)


def twice_the_median(p_values: Sequence[float]) -> float:
    """Return a p-value from p-values of one hypothesis that depend on each other in any way (Rüger 1978).

    For K p-values it is K/k times the k-th smallest, k = ⌈K/2⌉, and at most 1: twice the median for even K.
    """
    ordered, half = sorted(p_values), (len(p_values) + 1) // 2
    return min(1.0, ordered[half - 1] * len(p_values) / half)


class Combination(NamedTuple):
    """A linear combination of the attacks' scores, fitted on split A.

    ``low`` and ``high`` limit outliers, ``mean`` and ``scale`` normalize, all ``[attacks]``, as the ``weights``.
    """

    low: FloatArray
    high: FloatArray
    mean: FloatArray
    scale: FloatArray
    weights: FloatArray

    @classmethod
    def fitted(cls, scores: FloatArray, members: BoolArray) -> Combination:
        """Return the linear regression of membership on the normalized scores ``[attacks, n]``.

        Both classes have equal weight. A score that is equal for all texts gets the weight 0.
        """
        low, high = np.quantile(scores, [OUTLIERS, 1 - OUTLIERS], axis=1)
        clipped = np.clip(scores, low[:, None], high[:, None])
        mean, spread = clipped.mean(axis=1), clipped.std(axis=1)
        scale = np.where(spread > 0, spread, np.inf)
        normal = (clipped - mean[:, None]) / scale[:, None]
        gap = normal[:, members].mean(axis=1) - normal[:, ~members].mean(axis=1)
        moments = normal @ normal.T / scores.shape[1] + RIDGE * np.eye(len(scores))
        return cls(low, high, mean, scale, np.linalg.solve(moments, gap))

    def of(self, scores: FloatArray) -> FloatArray:
        """Return the combined score of each text, ``[n]``, from ``[attacks, n]``."""
        clipped = np.clip(scores, self.low[:, None], self.high[:, None])
        return np.asarray(self.weights @ ((clipped - self.mean[:, None]) / self.scale[:, None]), np.float64)


class Units(NamedTuple):
    """Texts with their clusters, numbered from 0 to ``number`` − 1 in the order of their names.

    A split must not depend on the scores, so it is drawn over the names of clusters.
    """

    scores: FloatArray
    members: BoolArray
    which: IntArray
    number: int

    @classmethod
    def of(
        cls,
        scores: Sequence[Sequence[float]] | FloatArray,
        members: Sequence[bool] | BoolArray,
        clusters: Sequence[int] | IntArray,
    ) -> Units:
        table, inside = np.asarray(scores, np.float64), np.asarray(members, np.bool_)
        if table.ndim != 2 or not len(table):
            raise ValueError("no attack has scores")
        names, which = np.unique(np.asarray(clusters), return_inverse=True)
        fewest = min(len(set(which[of].tolist())) for of in (inside, ~inside))
        if fewest < FEWEST_CLUSTERS:
            raise ValueError(f"a class has {fewest} clusters: dataset inference needs {FEWEST_CLUSTERS} or more")
        return cls(table, inside, which, len(names))

    def half(self, generator: np.random.Generator) -> BoolArray:
        """Return split A: a random half of the clusters of each class, as a mask of texts ``[n]``."""
        with_members = np.bincount(self.which, weights=self.members, minlength=self.number) > 0
        chosen = np.zeros(self.number, np.bool_)
        for places in (np.nonzero(with_members)[0], np.nonzero(~with_members)[0]):
            chosen[generator.permutation(places)[: len(places) // 2]] = True
        return chosen[self.which]

    def test(self, part: BoolArray, generator: np.random.Generator, spread: float = 1.0) -> tuple[float, float]:
        """Return the p-values of :func:`compare_units` on the texts that are not in ``part``."""
        inside = self.members[part]
        if inside.all() or not inside.any():
            return 1.0, 1.0
        combined = Combination.fitted(self.scores[:, part], inside).of(self.scores[:, ~part])
        suspected, unseen = (self._means(combined, ~part, of) for of in (True, False))
        return compare_units(suspected, unseen, generator, spread)

    def _means(self, combined: FloatArray, part: BoolArray, member: bool) -> FloatArray:
        """Return the mean combined score of each cluster's members, or non-members, in ``part``."""
        of = self.members[part] == member
        sizes = np.bincount(self.which[part][of])
        sums = np.bincount(self.which[part][of], weights=combined[of])
        return np.asarray(sums[sizes > 0] / sizes[sizes > 0], np.float64)


def compare_units(
    suspected: FloatArray, unseen: FloatArray, generator: np.random.Generator, spread: float = 1.0
) -> tuple[float, float]:
    """Return the one-sided p-values that the mean of ``suspected`` is not higher: Welch's t-test, permutation test.

    Both divide the difference of the means by ``spread``. A test without a value is 1: with fewer than two values in a
    group, or for Welch's test if no group has a variance.
    """
    values = np.concatenate([suspected, unseen])
    if min(len(suspected), len(unseen)) < 2 or not np.ptp(values):
        return 1.0, 1.0
    moments = [(float(of.mean()), spread * float(of.std(ddof=1)), len(of)) for of in (suspected, unseen)]
    # Equal values have a mean, and so a deviation, that differs in its last digits with their order.
    varies = any(deviation > 1e-12 * float(np.abs(values).max()) for _, deviation, _ in moments)
    welch = (
        float(stats.ttest_ind_from_stats(*moments[0], *moments[1], equal_var=False, alternative="greater").pvalue)
        if varies
        else 1.0
    )
    expected = len(suspected) * float(values.mean())
    # A sum in another order may differ in its last digits.
    least = expected + (float(suspected.sum()) - expected) / spread - 1e-12 * float(np.abs(values).sum())
    reached = 0
    for size in parts(PERMUTATIONS, len(values)):
        rows = generator.permuted(np.tile(values, (size, 1)), axis=1)
        reached += int((rows[:, : len(suspected)].sum(axis=1) >= least).sum())
    return welch, (1 + reached) / (1 + PERMUTATIONS)
