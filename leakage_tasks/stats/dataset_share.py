"""Lower bound on the share of a data set that is in the training data.

Dataset Usage Cardinality Inference (Tong, Ye, Zarifzadeh and Shokri 2025, "How much of my dataset did you use?")
estimates the share from membership guesses: (g − FPR)/(TPR − FPR), where g is the share of the data set's texts that
are guessed to be members. FPR is measured on texts that the model never saw. TPR needs models that were trained on
known texts of the data set. Without them TPR is unknown, but at most 1, and (g − FPR)/(1 − FPR) is a lower bound on the
share.

The bound assumes that texts of the data set that were not used are guessed to be members as often as the texts that the
model never saw.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakage_tasks.core.arrays import BoolArray, FloatArray
from leakage_tasks.stats.dataset_inference import Combination, Units
from leakage_tasks.stats.intervals import parts, percentiles
from leakage_tasks.stats.membership import Estimate

RESAMPLES = 2000


def least_share_used(scores: Sequence[Sequence[float]], members: Sequence[bool], clusters: Sequence[int]) -> Estimate:
    """Return the lower bound on the share of the suspected texts that are in the training data, with its interval.

    Each half of the clusters is guessed with the combination of scores and the threshold of the other half: the
    threshold has the largest TPR − FPR there. The interval is a percentile interval of a bootstrap of whole clusters,
    with a Beta distribution for a rate of 0 or 1.

    Args:
        scores: The scores of each attack, ``[attacks, n]``.
        members: True for suspected texts, ``[n]``.
        clusters: The cluster of each text, ``[n]``.

    Returns:
        The bound, at least 0, and its 95 % interval; its lower end is the value to quote.

    Raises:
        ValueError: If a class has fewer than :data:`~.dataset_inference.FEWEST_CLUSTERS` clusters.
    """
    units = Units.of(scores, members, clusters)
    generator = np.random.default_rng([0, 3])
    part = units.half(generator)
    guesses = np.zeros(len(units.members), np.bool_)
    for fitted, tested in ((part, ~part), (~part, part)):
        inside = units.members[fitted]
        model = Combination.fitted(units.scores[:, fitted], inside)
        threshold = best_threshold(model.of(units.scores[:, fitted]), inside)
        guesses[tested] = model.of(units.scores[:, tested]) > threshold
    # Sums per cluster of: suspected texts, those guessed to be members; and the same of the other texts.
    sums = np.array(
        [
            np.bincount(units.which, weights=weights, minlength=units.number)
            for of in (units.members, ~units.members)
            for weights in (of, of & guesses)
        ]
    )
    texts, hits, others, false_hits = sums.sum(axis=1)
    value = float(_bound(hits / texts, false_hits / others))
    low, high = percentiles(_resampled(sums, generator))
    return Estimate(value, min(value, low), max(value, high))


def best_threshold(scores: FloatArray, members: BoolArray) -> float:
    """Return the score with the largest TPR − FPR for scores above it; the highest of equally good ones."""
    order = np.argsort(-scores, kind="stable")
    inside = members[order]
    gain = np.cumsum(np.where(inside, 1 / inside.sum(), -1 / (~inside).sum()))
    ordered = scores[order]
    # Equal scores are on one side of a threshold.
    last = np.append(np.diff(ordered) != 0, True)
    index = int(np.argmax(np.where(last, gain, -np.inf)))
    return float((ordered[index] + ordered[index + 1]) / 2) if index + 1 < len(ordered) else -np.inf


def _bound(share: FloatArray, false: FloatArray) -> FloatArray:
    """Return (g − FPR)/(1 − FPR), at least 0, for shares g of guessed texts and false positive rates; 0 if FPR is
    1."""
    bound = np.divide(share - false, 1 - false, out=np.zeros_like(share), where=false < 1)
    return np.clip(bound, 0, 1)


def _resampled(sums: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return the bound in resamples of clusters. Clusters with and without suspected texts are drawn separately."""
    kinds = [np.nonzero(chosen)[0] for chosen in (sums[0] > 0, sums[0] == 0)]
    bounds = []
    for size in parts(RESAMPLES, sums.shape[1]):
        drawn = np.hstack([generator.choice(kind, (size, len(kind))) for kind in kinds if len(kind)])
        resampled = sums[:, drawn].sum(axis=2)
        bounds.append(_bound(*(_shares(sums[of], resampled[of], generator) for of in (slice(0, 2), slice(2, 4)))))
    return np.concatenate(bounds)


def _shares(sums: FloatArray, resampled: FloatArray, generator: np.random.Generator) -> FloatArray:
    """Return the share of guessed texts in each resample, from the numbers of texts and of guessed texts.

    If all texts are guessed to be members, or none is, resamples have no spread. The share of the outcome that was not
    seen is then drawn from Beta(1, clusters), whose 97.5 % quantile is the end of Clopper and Pearson's interval.
    """
    texts, hits = sums.sum(axis=1)
    if hits not in (0, texts):
        return np.asarray(resampled[1] / np.maximum(resampled[0], 1))
    unseen = generator.beta(1, np.count_nonzero(sums[0]), resampled.shape[1])
    return np.asarray(1 - unseen if hits else unseen)
