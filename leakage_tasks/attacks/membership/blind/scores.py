"""Cross-validated scores of the blind baselines."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from scipy import stats

from leakage_tasks.attacks.membership.blind.baselines import BASELINES, Baseline, BlindTexts
from leakage_tasks.attacks.membership.blind.folds import grouped_folds, joined_clusters, text_digests

_DIGITS = 6
"""Decimal digits of scores that count. Further digits depend on the machine."""


def blind_scores(
    texts: Sequence[str],
    members: Sequence[bool],
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
    baselines: Mapping[str, Baseline] = BASELINES,
) -> dict[str, list[float]]:
    """Return the scores of each blind baseline, each from a classifier that was trained on the other folds.

    A score is the rank of the text among all texts as a number between 0 and 1, so that it states nothing else about a
    text. A higher score makes membership more likely. The scores do not depend on the order of the texts.

    Args:
        texts: The texts, ``[n]``.
        members: True for members, ``[n]``.
        clusters: The cluster of each text, ``[n]``; texts of a cluster are never in different folds. By default each
            text is a cluster. Clusters with an equal text count as one.
        seed: The random seed of the folds.
        baselines: The baselines by name.

    Returns:
        The scores by baseline, ``[n]`` each, in the order of ``texts``.

    Raises:
        ValueError: If members or non-members have fewer than two clusters.
    """
    digests = text_digests(texts, seed)
    joined = joined_clusters(texts, range(len(texts)) if clusters is None else clusters)
    # The order in which texts are given has no meaning, so it must not change a classifier.
    order = sorted(range(len(texts)), key=lambda index: (digests[index], bool(members[index]), joined[index]))
    sample = BlindTexts(tuple(texts[index] for index in order), np.array([bool(members[i]) for i in order]))
    folds = grouped_folds([digests[i] for i in order], sample.members.tolist(), [joined[i] for i in order])
    scores = {}
    for name, baseline in baselines.items():
        of_order = np.empty(len(texts), np.float64)
        for fold in range(int(folds.max()) + 1):
            of_order[folds == fold] = baseline(sample, folds == fold)
        of_texts = np.empty(len(texts), np.float64)
        of_texts[order] = (stats.rankdata(of_order.round(_DIGITS)) - 0.5) / len(texts)
        scores[name] = [round(float(score), _DIGITS) for score in of_texts]
    return scores
