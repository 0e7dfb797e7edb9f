"""Texts that are nearly equal, in groups: MinHash and locality-sensitive hashing, each pair then compared for certain.

The similarity of two texts is the share of their runs of five characters that both have (Jaccard, of the two sets), in
lower case and with white space alike. Pairs that may be similar are those whose hashes agree in a band (Broder 1997;
Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, chapter 3), so that not every text meets every other. What
is grouped is certain; a pair just as similar as asked for is missed once in a hundred times, a more similar one less.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.errors import OptionError

RUN = 5
"""Characters in a run."""
HASHES = 256
MISSED = 0.01
"""The most of the pairs at the limit that no band brings together."""
CHARACTERS = 1 << 20
"""About how many are hashed at once."""
KEPT = 1 << 16
"""Texts whose runs are remembered."""
_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_Hashes = NDArray[np.uint64]


def check_similarity(similarity: float) -> None:
    """Raise OptionError unless it can part texts."""
    if not 0.2 <= similarity <= 1:
        raise OptionError(f"near is {similarity:g}: give a similarity from 0.2 to 1; 0.4 suits lines of text")


def runs_of(text: str) -> frozenset[str]:
    """The runs of a text; of a shorter one the whole."""
    plain = " ".join(text.lower().split())
    return frozenset(plain[place : place + RUN] for place in range(max(1, len(plain) - RUN + 1)))


def similarity_of(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of two texts' runs that both have."""
    return len(one & other) / len(one | other)


def near_groups(texts: Sequence[str], similarity: float) -> list[list[int]]:
    """Numbers of texts in groups: each is similar to another of its group, at least as much as asked for.

    Both groups and their members are in the order of the texts. The same texts give the same groups. Raises
    OptionError for a similarity that cannot part texts.
    """
    from scipy.cluster.hierarchy import DisjointSet

    check_similarity(similarity)
    known = lru_cache(KEPT)(lambda number: runs_of(texts[number]))
    groups = DisjointSet(range(len(texts)))
    for bucket in _buckets(texts, similarity):
        # What is grouped already is compared no more, so that many copies of one text cost no more than others.
        parts: list[list[int]] = []
        for number in bucket:
            mine, others = [number], []
            for part in parts:
                alike = groups.connected(part[0], number)
                if alike or any(similarity_of(known(one), known(number)) >= similarity for one in part):
                    groups.merge(part[0], number)
                    mine += part
                else:
                    others.append(part)
            parts = [*others, mine]
    return sorted(sorted(group) for group in groups.subsets())


class NearTo:
    """Whether a text is at least as similar to one of some as asked for; an index of their runs says, without pairs."""

    def __init__(self, texts: Iterable[str], similarity: float) -> None:
        self.similarity = similarity
        self._runs = [runs_of(text) for text in texts]
        self._holding: defaultdict[str, list[int]] = defaultdict(list)
        for number, runs in enumerate(self._runs):
            for run in runs:
                self._holding[run].append(number)

    def __contains__(self, text: str) -> bool:
        own = runs_of(text)
        shared = Counter(number for run in own for number in self._holding.get(run, ()))
        sizes = ((count, len(own) + len(self._runs[number]) - count) for number, count in shared.items())
        return any(count / union >= self.similarity for count, union in sizes)


def _buckets(texts: Sequence[str], similarity: float) -> Iterator[list[int]]:
    """Texts that agree in a band, in order; each two of them may be similar."""
    keys = np.concatenate([np.zeros((0, HASHES // _rows(similarity)), np.uint64), *_band_keys(texts, similarity)])
    for band in keys.T:
        order = np.argsort(band, kind="stable")
        ends = np.flatnonzero(np.diff(band[order])) + 1
        yield from (part.tolist() for part in np.split(order, ends) if len(part) > 1)


def _rows(similarity: float) -> int:
    """Hashes in a band: as many as miss few enough of the pairs."""
    fits = [rows for rows in range(1, 33) if (1 - similarity**rows) ** (HASHES // rows) <= MISSED]
    return max(fits)


def _band_keys(texts: Sequence[str], similarity: float) -> Iterator[_Hashes]:
    """A number for each text and band, ``[texts, bands]``, some texts at a time."""
    rows = _rows(similarity)
    stream = np.random.default_rng(0)
    odd, shift = (stream.integers(1 << 63, dtype=np.uint64) * np.uint64(2) + np.uint64(1) for _ in range(2))
    factors, terms = (stream.integers(1 << 63, size=HASHES, dtype=np.uint64) * np.uint64(2) + odd for _ in range(2))
    for part in _parts(texts):
        hashes, starts = _run_hashes(part)
        drawn = (_mixed(hashes * factor + term) for factor, term in zip(factors, terms, strict=True))
        least = np.stack([np.minimum.reduceat(each, starts) for each in drawn])
        bands = least[: HASHES // rows * rows].reshape(HASHES // rows, rows, len(part))
        key = np.zeros((HASHES // rows, len(part)), np.uint64)
        for row in range(rows):
            key = _mixed((key + bands[:, row]) * odd + shift)
        yield key.T


def _parts(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """The texts in order, in parts of about so many characters."""
    start = size = 0
    for place, text in enumerate(texts):
        size += len(text) + 1
        if size >= CHARACTERS:
            yield texts[start : place + 1]
            start, size = place + 1, 0
    if start < len(texts):
        yield texts[start:]


def _run_hashes(texts: Sequence[str]) -> tuple[_Hashes, NDArray[np.int64]]:
    """Hashes of all runs, one text after the other, and where each text's begin."""
    plain = [" ".join(text.lower().split()).ljust(RUN, "\0") for text in texts]
    points = np.frombuffer("".join(plain).encode("utf-32-le", "surrogatepass"), np.uint32).astype(np.uint64)
    hashes = np.zeros(len(points) - RUN + 1, np.uint64)
    for place in range(RUN):
        hashes = _mixed((hashes + points[place : place + len(hashes)]) * _FACTOR)
    lengths = np.array([len(each) for each in plain])
    within, ends = np.ones(len(points), np.bool_), lengths.cumsum()
    for back in range(1, RUN):
        within[ends - back] = False
    return hashes[within[: len(hashes)]], np.concatenate([[0], (lengths - RUN + 1).cumsum()[:-1]])


def _mixed(values: _Hashes) -> _Hashes:
    """Numbers that are far apart wherever they were not equal (the finisher of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
