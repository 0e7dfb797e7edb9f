"""Token paths of a small space: a prefix tree of the encodings of all of its fillings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.errors import TargetError

Encode = Callable[[list[str]], list[list[int]]]
CHUNK = 10_000


class TrieGraph:
    """Identity of a trie that the paths of several spaces share."""


class TriePaths:
    """The :class:`~leakage_tasks.targets.protocols.Paths` of a space by enumeration: every path leads to a filling.

    A node represents the fillings that begin with its tokens. Nodes are numbered level by level, and the children of a
    node have consecutive numbers. Raises TargetError if two texts have equal tokens; two fillings that spell one text
    share its path.
    """

    def __init__(self, space: Space, encode: Encode) -> None:
        self._space = space
        rows, lengths = _encode_all(space, encode)
        shared = _shared_prefix(rows, lengths)
        self.prefix = tuple(int(token) for token in rows[0, :shared])
        self._rows, self._lengths = rows[:, shared:], lengths - shared
        self.longest = int(self._lengths.max())
        self._build(self._rows, self._lengths)
        self.graph = TrieGraph()

    def after(self, prefix: Sequence[int], space: Space) -> TriePaths:
        """Return the trie with another prefix, for a ``space`` of equal fillings."""
        copied = copy.copy(self)
        copied.prefix, copied._space = tuple(prefix), space
        return copied

    def _build(self, rows: IntArray, lengths: IntArray) -> None:
        order = np.lexsort(rows.T[::-1])
        rows, lengths = rows[order], lengths[order]
        same = np.zeros(len(rows), dtype=bool)
        same[1:] = (rows[1:] == rows[:-1]).all(axis=1)
        for row in np.flatnonzero(same):
            if self._text(order[row]) != self._text(order[row - 1]):
                raise TargetError(
                    "the tokenizer gives two fillings of this space equal tokens, so they cannot be distinguished: use "
                    "a space whose values the tokenizer distinguishes"
                )
        parents, tokens, nodes = [], [], 1
        node_of_row = np.zeros(len(rows), dtype=np.int64)
        fresh = np.zeros(len(rows), dtype=bool)
        fresh[0] = True
        for depth in range(rows.shape[1]):
            fresh[1:] |= rows[1:, depth] != rows[:-1, depth]
            alive = lengths > depth
            first = np.flatnonzero(fresh & alive)
            ids = nodes + np.cumsum(fresh & alive) - 1
            parents.append(node_of_row[first])
            tokens.append(rows[first, depth])
            node_of_row = np.where(alive, ids, node_of_row)
            nodes += len(first)
        self.root = 0
        self._places = order[np.argsort(node_of_row, kind="stable")]
        self._spelled = np.bincount(node_of_row, minlength=nodes)
        self._first_place = np.cumsum(self._spelled) - self._spelled
        self._link(np.concatenate(parents), np.concatenate(tokens))
        self._height = np.zeros(len(self._spelled), dtype=np.int64)
        after = len(self._spelled)
        for above in reversed(parents):
            np.maximum.at(self._height, above, self._height[after - len(above) : after] + 1)
            after -= len(above)

    def _text(self, index: int) -> str:
        return self._space.fill(self._space.at(int(index)))

    def _link(self, parents: IntArray, tokens: IntArray) -> None:
        self.columns = np.unique(tokens)
        self._column = np.searchsorted(self.columns, tokens)
        counts = np.bincount(parents, minlength=len(self._spelled))
        self._count = counts
        self._first = np.concatenate([[0], np.cumsum(counts)[:-1]])

    def table(self, states: IntArray) -> IntArray:
        row, edge = edges_of(self._first[states], self._count[states])
        out = np.full((len(states), len(self.columns)), -1, dtype=np.int64)
        out[row, self._column[edge]] = edge + 1
        return out

    def ends(self, states: IntArray) -> NDArray[np.bool_]:
        return self._spelled[states] > 0

    def goes_on(self, states: IntArray) -> NDArray[np.bool_]:
        return self._count[states] > 0

    def to_come(self, states: IntArray) -> IntArray:
        """Return the maximum number of tokens after each state."""
        return self._height[states]

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        spelled = zip(self._first_place[states], self._spelled[states], strict=True)
        indices = [self._places[first : first + count].tolist() for first, count in spelled]
        return [[self._space.at(index) for index in node] for node in indices]

    def count(self, states: IntArray, paths: IntArray) -> IntArray:
        return self._spelled[states]

    def path(self, filling: Filling) -> tuple[int, ...]:
        index = self._space.index(filling)
        return tuple(int(token) for token in self._rows[index, : self._lengths[index]])

    def each_path(self, fillings: Sequence[Filling]) -> list[tuple[int, ...]]:
        return [self.path(filling) for filling in fillings]

    def inner_nodes(self, limit: int) -> int | None:
        inner = int(np.count_nonzero(self._count)) - 1
        return inner if inner <= limit else None


def edges_of(first: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return the indices of all edges of n runs of ``count`` edges from ``first`` on, and each edge's run."""
    run = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(run)) - np.repeat(np.cumsum(count) - count, count)
    return run, first[run] + within


def _encode_all(space: Space, encode: Encode) -> tuple[IntArray, IntArray]:
    """Return the tokens of every filled text ``[|R|, longest]``, padded with −1, and their lengths ``[|R|]``."""
    texts = space.texts()
    encoded: list[list[int]] = []
    while batch := list(islice(texts, CHUNK)):
        encoded += encode(batch)
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    rows = np.full((len(encoded), int(lengths.max())), -1, dtype=np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = np.fromiter(chain.from_iterable(encoded), np.int64)
    return rows, lengths


def _shared_prefix(rows: IntArray, lengths: IntArray) -> int:
    """Return the number of leading tokens that all rows share; at least one other token remains in every row."""
    same = (rows == rows[0]).all(axis=0)
    shared = len(same) if same.all() else int(same.argmin())
    return min(shared, int(lengths.min()) - 1)
