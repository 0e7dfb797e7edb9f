"""Groups of near-duplicate texts: MinHash and locality-sensitive hashing, then an exact comparison of each pair.

The similarity of two texts is the Jaccard index of their sets of shingles (runs of five characters), in lower case and
with white space normalized. Only pairs whose hashes agree in a band are compared (Broder 1997; Leskovec, Rajaraman and
Ullman, Mining of Massive Datasets, chapter 3). All grouped pairs are truly similar. A pair exactly at the limit is
missed with a probability of 1 %, a more similar pair with a smaller probability.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.errors import OptionError

SHINGLE = 5
"""Number of characters in a shingle."""
HASHES = 256
MISSED = 0.01
"""Largest share of the pairs at the limit that no band detects."""
CHARACTERS = 1 << 20
"""Approximate number of characters hashed at a time."""
CACHED = 1 << 16
"""Number of texts whose shingles are cached."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_Hashes = NDArray[np.uint64]


def check_similarity(similarity: float) -> None:
    """Raise OptionError if ``similarity`` is not between 0.2 and 1."""
    if not 0.2 <= similarity <= 1:
        raise OptionError(f"near is {similarity:g}: give a similarity from 0.2 to 1; 0.4 suits lines of text")


def shingles_of(text: str) -> frozenset[str]:
    """Return the set of shingles of a text. A shorter text is one shingle."""
    plain = " ".join(text.lower().split())
    return frozenset(plain[start : start + SHINGLE] for start in range(max(1, len(plain) - SHINGLE + 1)))


def similarity_of(one: frozenset[str], other: frozenset[str]) -> float:
    """Return the Jaccard index of two sets of shingles."""
    return len(one & other) / len(one | other)


def near_groups(texts: Sequence[str], similarity: float) -> list[list[int]]:
    """Group texts by similarity. Return the indices of the texts of each group.

    Each text of a group has at least this ``similarity`` to another text of the group. Groups and their members are in
    the order of the texts; the random seed is fixed. Raises OptionError if ``similarity`` is not between 0.2 and 1.
    """
    from scipy.cluster.hierarchy import DisjointSet

    check_similarity(similarity)
    shingles = lru_cache(CACHED)(lambda number: shingles_of(texts[number]))
    groups = DisjointSet(range(len(texts)))
    for bucket in _buckets(texts, similarity):
        # Texts of one group are not compared again: this keeps the cost of many copies of one text low.
        parts: list[list[int]] = []
        for number in bucket:
            group, others = [number], []
            for part in parts:
                connected = groups.connected(part[0], number)
                if connected or any(similarity_of(shingles(one), shingles(number)) >= similarity for one in part):
                    groups.merge(part[0], number)
                    group += part
                else:
                    others.append(part)
            parts = [*others, group]
    return sorted(sorted(group) for group in groups.subsets())


class NearIndex:
    """An index of texts by their shingles: ``text in index`` is true if ``text`` is similar to any of them."""

    def __init__(self, texts: Iterable[str], similarity: float) -> None:
        self.similarity = similarity
        self._shingles = [shingles_of(text) for text in texts]
        self._holding: defaultdict[str, list[int]] = defaultdict(list)
        for number, shingles in enumerate(self._shingles):
            for shingle in shingles:
                self._holding[shingle].append(number)

    def __contains__(self, text: str) -> bool:
        shingles = shingles_of(text)
        shared = Counter(number for shingle in shingles for number in self._holding.get(shingle, ()))
        sizes = ((count, len(shingles) + len(self._shingles[number]) - count) for number, count in shared.items())
        return any(count / union >= self.similarity for count, union in sizes)


def _buckets(texts: Sequence[str], similarity: float) -> Iterator[list[int]]:
    """Yield the ascending indices of texts that agree in a band: candidates for similar pairs."""
    keys = np.concatenate([np.zeros((0, HASHES // _rows(similarity)), np.uint64), *_band_keys(texts, similarity)])
    for band in keys.T:
        order = np.argsort(band, kind="stable")
        ends = np.flatnonzero(np.diff(band[order])) + 1
        yield from (part.tolist() for part in np.split(order, ends) if len(part) > 1)


def _rows(similarity: float) -> int:
    """Return the number of hashes in a band: the largest that misses at most 1 % of the pairs at the limit."""
    fits = [rows for rows in range(1, 33) if (1 - similarity**rows) ** (HASHES // rows) <= MISSED]
    return max(fits)


def _band_keys(texts: Sequence[str], similarity: float) -> Iterator[_Hashes]:
    """Yield a key for each text and band, ``[texts, bands]``, for a part of the texts at a time."""
    rows = _rows(similarity)
    stream = np.random.default_rng(0)
    odd, shift = (stream.integers(1 << 63, dtype=np.uint64) * np.uint64(2) + np.uint64(1) for _ in range(2))
    factors, terms = (stream.integers(1 << 63, size=HASHES, dtype=np.uint64) * np.uint64(2) + odd for _ in range(2))
    for part in _parts(texts):
        hashes, starts = _shingle_hashes(part)
        drawn = (_mixed(hashes * factor + term) for factor, term in zip(factors, terms, strict=True))
        least = np.stack([np.minimum.reduceat(values, starts) for values in drawn])
        bands = least[: HASHES // rows * rows].reshape(HASHES // rows, rows, len(part))
        key = np.zeros((HASHES // rows, len(part)), np.uint64)
        for row in range(rows):
            key = _mixed((key + bands[:, row]) * odd + shift)
        yield key.T


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the texts in order, in parts of about :data:`CHARACTERS` characters."""
    start = size = 0
    for end, text in enumerate(texts, 1):
        size += len(text) + 1
        if size >= CHARACTERS:
            yield texts[start:end]
            start, size = end, 0
    if start < len(texts):
        yield texts[start:]


def _shingle_hashes(texts: Sequence[str]) -> tuple[_Hashes, NDArray[np.int64]]:
    """Return the hashes of all shingles, text by text, and the index of each text's first hash."""
    plain = [" ".join(text.lower().split()).ljust(SHINGLE, "\0") for text in texts]
    points = np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    hashes = np.zeros(len(points) - SHINGLE + 1, np.uint64)
    for offset in range(SHINGLE):
        hashes = _mixed((hashes + points[offset : offset + len(hashes)]) * _FACTOR)
    lengths = np.array([len(text) for text in plain])
    within, ends = np.ones(len(points), np.bool_), lengths.cumsum()
    for back in range(1, SHINGLE):
        within[ends - back] = False
    return hashes[within[: len(hashes)]], np.concatenate([[0], (lengths - SHINGLE + 1).cumsum()[:-1]])


def _mixed(values: _Hashes) -> _Hashes:
    """Return hashes of numbers (the finisher of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
