"""Exchange of suffixes between documents: a control for guesses from style, topic and length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leakage_tasks.core.arrays import IntArray
from leakage_tasks.pairs.pair import Pair


def with_exchanged(pairs: Sequence[Pair], seed: int) -> tuple[Pair, ...]:
    """Return the pairs, each with the suffix of a pair of another document.

    Each suffix is used once (a derangement by documents), unless one document has more than half of the pairs: then
    suffixes of other documents are drawn with replacement. The seed decides on the partners.

    Args:
        pairs: Pairs of two or more documents, whose suffixes have equal lengths.
        seed: Seed of the exchange.

    Returns:
        The pairs in the given order, with ``exchanged``.
    """
    documents = np.array([-1 if pair.document is None else pair.document for pair in pairs], dtype=np.int64)
    partners = _partners(documents, np.random.default_rng([seed, 1]))
    return tuple(replace(pair, exchanged=pairs[partner].suffix) for pair, partner in zip(pairs, partners, strict=True))


def _partners(documents: IntArray, generator: np.random.Generator) -> list[int]:
    """Return the index of a pair of another document for each pair."""
    number, most = len(documents), max(Counter(documents.tolist()).values())
    if 2 * most > number:
        others = [np.flatnonzero(documents != document) for document in documents]
        return [int(generator.choice(other)) for other in others]
    # Pairs of a document are neighbours in a random order of documents, so a shift by the largest number of pairs of a
    # document leaves each document.
    shuffled = generator.permutation(number)
    names, first = np.unique(documents[shuffled], return_index=True)
    rank = dict(zip(names.tolist(), first.tolist(), strict=True))
    order = sorted(shuffled.tolist(), key=lambda index: rank[int(documents[index])])
    partners = [0] * number
    for place, index in enumerate(order):
        partners[index] = order[(place + most) % number]
    return partners
