"""Exact search for runs of tokens in an index: all positions of a text are searched at once.

A run is a stretch of the text that occurs in one document of the corpus. It is maximal: neither a token before nor a
token after it can be added. Runs may overlap if they come from different places of the corpus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import BoolArray, IntArray, TokenIds
from leakage_tasks.pairs.index.store import SEPARATOR, CorpusIndex

QUICK = 8
"""Number of tokens compared first; most texts differ in these."""
AT_ONCE = 1 << 22
"""Maximum number of tokens of the windows that are searched at once."""
NOWHERE = -1
"""Value in place of a position of the corpus."""


@dataclass(frozen=True)
class TokenRun:
    """A maximal run: its start in the text, its length, and a position of the corpus at which it occurs.

    If it occurs several times, ``position`` is the one that precedes the others in the index, so equal runs have equal
    positions.
    """

    start: int
    length: int
    position: int


@dataclass(frozen=True)
class Matches:
    """The runs of at least ``n`` tokens of a text that occur in a corpus, and its n-grams that do."""

    runs: tuple[TokenRun, ...]
    positions: IntArray
    """For each n-gram of the text its position in the corpus, or :data:`NOWHERE`; equal n-grams have equal positions.
    Shape ``[tokens − n + 1]``."""


def find_matches(index: CorpusIndex, text: Sequence[int], n: int) -> Matches:
    """Return the runs of at least ``n`` tokens, and the n-grams, of a text of token ids that occur in the corpus."""
    values = np.array(text, dtype=np.int64) + 1
    windows = np.lib.stride_tricks.sliding_window_view(values, n) if len(values) >= n else np.zeros((0, n), np.int64)
    positions = positions_of(index, windows)
    return Matches(tuple(_runs(index, values, np.flatnonzero(positions != NOWHERE))), positions)


def positions_of(index: CorpusIndex, windows: IntArray) -> IntArray:
    """Return for each window ``[n, k]`` of values the position at which the corpus holds it, or :data:`NOWHERE`.

    Values are token ids plus 1. The result is the first such position in the order of the index, ``[n]``.
    """
    found = np.full(len(windows), NOWHERE, dtype=np.int64)
    size = max(1, AT_ONCE // max(1, windows.shape[1]))
    for number in range(len(index.parts)):
        for first in range(0, len(windows), size):
            block = slice(first, first + size)
            missing = np.flatnonzero(found[block] == NOWHERE) + first
            wanted = windows[missing]
            places = _place_at(index, number, _insertion(index, number, wanted))
            hits = (_texts(index, places, wanted.shape[1]) == wanted).all(axis=1) & (places != NOWHERE)
            found[missing[hits]] = places[hits]
    return found


def _runs(index: CorpusIndex, values: IntArray, starts: IntArray) -> list[TokenRun]:
    """Return the maximal runs among the longest matches at ``starts``."""
    lengths = _longest(index, values, starts)
    ends = starts + lengths
    # A match that ends where a match from an earlier start ends is a part of it.
    whole = ends > np.maximum.accumulate(np.concatenate([[0], ends[:-1]])) if len(ends) else np.zeros(0, bool)
    runs = []
    for start, length in zip(starts[whole].tolist(), lengths[whole].tolist(), strict=True):
        position = positions_of(index, values[None, start : start + length])[0]
        runs.append(TokenRun(start, length, int(position)))
    return runs


def _longest(index: CorpusIndex, values: IntArray, starts: IntArray) -> IntArray:
    """Return the length of the longest match that begins at each of ``starts``, ``[n]``."""
    longest = np.zeros(len(starts), dtype=np.int64)
    padded = np.concatenate([values, np.full(len(values), SEPARATOR, np.int64)])
    size = max(1, AT_ONCE // max(1, len(values)))
    for first in range(0, len(starts), size):
        block = slice(first, first + size)
        windows = padded[starts[block, None] + np.arange(len(values))]
        for number in range(len(index.parts)):
            rank = _insertion(index, number, windows)
            # Of all texts of the part, a neighbour of the place where the window belongs agrees with it longest.
            for neighbour in (rank - 1, rank):
                places = _place_at(index, number, neighbour)
                agreed = _agreement(_texts(index, places, windows.shape[1]), windows)
                longest[block] = np.maximum(longest[block], np.where(places == NOWHERE, 0, agreed))
    return longest


def _agreement(texts: IntArray, windows: IntArray) -> IntArray:
    """Return the number of leading tokens in which each text equals its window, up to the end of either."""
    same = (texts == windows) & (windows != SEPARATOR)
    return np.where(same.all(axis=1), same.shape[1], (~same).argmax(axis=1))


def _insertion(index: CorpusIndex, number: int, windows: IntArray) -> IntArray:
    """Return for each window the number of texts of a part that precede it in the part's order, ``[n]``."""
    low = np.zeros(len(windows), dtype=np.int64)
    high = np.full(len(windows), len(index.parts[number]), dtype=np.int64)
    while len(active := np.flatnonzero(low < high)):
        middle = (low[active] + high[active]) // 2
        less = _precedes(index, _place_at(index, number, middle), windows[active])
        low[active[less]] = middle[less] + 1
        high[active[~less]] = middle[~less]
    return low


def _precedes(index: CorpusIndex, places: IntArray, windows: IntArray) -> BoolArray:
    less, equal = _compare(_texts(index, places, min(QUICK, windows.shape[1])), windows[:, :QUICK])
    if windows.shape[1] > QUICK and equal.any():
        rows = np.flatnonzero(equal)
        less[rows] = _compare(_texts(index, places[rows], windows.shape[1]), windows[rows])[0]
    return less


def _compare(texts: IntArray, windows: IntArray) -> tuple[BoolArray, BoolArray]:
    differ = texts != windows
    first = differ.argmax(axis=1)
    rows = np.arange(len(first))
    return texts[rows, first] < windows[rows, first], ~differ[rows, first]


def _texts(index: CorpusIndex, places: IntArray, length: int) -> IntArray:
    """Return ``length`` values of the corpus from each place on, ``[n, length]``; separators after its end."""
    positions = np.minimum(places[:, None] + np.arange(length), len(index.tokens) - 1)
    return np.asarray(index.tokens[positions]).astype(np.int64)


def _place_at(index: CorpusIndex, number: int, ranks: IntArray) -> IntArray:
    """Return the corpus position at each rank of a part; :data:`NOWHERE` for ranks outside it."""
    part: TokenIds = index.parts[number]
    inside = (ranks >= 0) & (ranks < len(part))
    places = np.full(len(ranks), NOWHERE, dtype=np.int64)
    places[inside] = np.asarray(part[ranks[inside]]).astype(np.int64) + number * index.about.part
    return places
