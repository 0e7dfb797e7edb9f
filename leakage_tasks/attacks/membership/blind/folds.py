"""Folds of a cross-validation that keep clusters whole and depend on the texts, not on their order."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

import numpy as np

from leakage_tasks.core.arrays import IntArray

FOLDS = 5


def text_digests(texts: Sequence[str], seed: int) -> list[bytes]:
    """Return a hash of each text and the seed. Sorted by these hashes, texts are in a random order."""
    return [hashlib.sha256(f"{seed}\n{text}".encode("utf-8", "surrogatepass")).digest() for text in texts]


def joined_clusters(texts: Sequence[str], clusters: Sequence[Hashable]) -> list[int]:
    """Return cluster numbers in which clusters that share an equal text are one cluster.

    A classifier would recognize a text that is in both the training and the test part of a fold.
    """
    parent: dict[Hashable, Hashable] = {}

    def root(name: Hashable) -> Hashable:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for text, cluster in zip(texts, clusters, strict=True):
        parent[root(("cluster", cluster))] = root(("text", text))
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(root(("cluster", cluster)), len(numbers)) for cluster in clusters]


def grouped_folds(
    digests: Sequence[bytes], members: Sequence[bool], clusters: Sequence[int], folds: int = FOLDS
) -> IntArray:
    """Return the fold of each text, from 0. All texts of a cluster have the same fold.

    There are three kinds of clusters: only members, only non-members, and both. The clusters of a kind are dealt to the
    folds in the order of their smallest digest, each to the fold with the fewest texts of this kind so far. There are
    fewer folds if a class has fewer than ``folds`` clusters.

    Raises:
        ValueError: If members or non-members have fewer than two clusters.
    """
    of_cluster: dict[int, list[int]] = defaultdict(list)
    for index, cluster in enumerate(clusters):
        of_cluster[cluster].append(index)
    kinds = {cluster: frozenset(bool(members[index]) for index in indexes) for cluster, indexes in of_cluster.items()}
    fewest = min(sum(value in kind for kind in kinds.values()) for value in (True, False))
    if fewest < 2:
        raise ValueError("members and non-members need two clusters each for a cross-validation")
    fold, number = np.empty(len(members), np.int64), min(folds, fewest)
    sizes: dict[frozenset[bool], Counter[int]] = {kind: Counter() for kind in kinds.values()}
    for cluster in sorted(of_cluster, key=lambda name: min(digests[index] for index in of_cluster[name])):
        size = sizes[kinds[cluster]]
        chosen = min(range(number), key=lambda index: (size[index], index))
        size[chosen] += len(of_cluster[cluster])
        fold[of_cluster[cluster]] = chosen
    return fold
