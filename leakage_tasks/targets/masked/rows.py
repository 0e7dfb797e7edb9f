"""The masked copies of many texts, one for each token asked about, with copies that are the same made once.

Texts that differ in nothing but the token under the mask share a copy, which then answers for the tokens of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.batches import Rows, join_rows

Query = tuple[list[int], list[int]]
"""A text's tokens, and the places of those asked about."""
TOGETHER = 1 << 20
"""Tokens of masked copies, at most, that are written out at once."""


class MaskedCopies(NamedTuple):
    """Some masked copies, and the tokens each is asked for."""

    rows: Rows
    """Token ids, one array ``[n, length]`` where all are equally long."""
    columns: IntArray
    """Where each row's mask stands, ``[n]``."""
    tokens: IntArray
    """``[n, width]``; a row that is asked for fewer has its last one again."""
    asked: IntArray
    """Which of all the tokens asked about each of these is, ``[n, width]``."""


class MaskedRows:
    """The distinct masked copies of the texts in ``queries``.

    The tokens asked about are numbered from 0, in the order of the queries and of the places within each.
    """

    def __init__(self, queries: Sequence[Query], mask: int) -> None:
        self._queries, self._mask = queries, mask
        self.query = np.repeat(np.arange(len(queries)), [len(places) for _, places in queries])
        """Which query each token asked about is of, shape ``[asked]``."""
        self._places = np.array([place for _, places in queries for place in places], dtype=np.int64)
        self._tokens = np.array([ids[place] for ids, places in queries for place in places], dtype=np.int64)
        self._distinct()

    def __len__(self) -> int:
        return len(self._text)

    def _distinct(self) -> None:
        """Find the texts and places that copies are made from, and which copy answers for each token."""
        lengths = np.array([len(ids) for ids, _ in self._queries], dtype=np.int64)[self.query]
        self._row = np.zeros(len(self.query), dtype=np.int64)
        texts: list[IntArray] = []
        columns: list[IntArray] = []
        made = 0
        for length in np.unique(lengths):
            here = np.flatnonzero(lengths == length)
            own, text = np.unique(self.query[here], return_inverse=True)
            ids = np.array([self._queries[query][0] for query in own], dtype=np.int64)
            # What is the same in all texts cannot tell two copies apart.
            varying = np.flatnonzero((ids != ids[0]).any(axis=0))
            for place in np.unique(self._places[here]):
                at = self._places[here] == place
                first, row = _distinct_rows(ids[text[at]][:, varying[varying != place]])
                texts.append(own[text[at]][first])
                columns.append(np.full(len(first), place))
                self._row[here[at]] = made + row
                made += len(first)
        self._text = np.concatenate([np.empty(0, dtype=np.int64), *texts])
        self._column = np.concatenate([np.empty(0, dtype=np.int64), *columns])

    def parts(self) -> Iterator[MaskedCopies]:
        """All copies, those asked for about as many tokens, and of about one length, together."""
        order = np.argsort(self._row, kind="stable")
        counts = np.bincount(self._row, minlength=len(self))
        starts = np.cumsum(counts) - counts
        lengths = np.array([len(ids) for ids, _ in self._queries], dtype=np.int64)[self._text]
        widths = np.frexp(counts)[1]
        for width in np.unique(widths):
            rows = np.flatnonzero(widths == width)
            rows = rows[np.argsort(lengths[rows], kind="stable")]
            for some in np.split(rows, np.flatnonzero(np.diff(np.cumsum(lengths[rows]) // TOGETHER)) + 1):
                last = counts[some][:, None] - 1
                asked = order[starts[some][:, None] + np.minimum(np.arange(last.max() + 1), last)]
                yield MaskedCopies(self._write_out(some), self._column[some], self._tokens[asked], asked)

    def _write_out(self, rows: IntArray) -> Rows:
        copies = [list(self._queries[text][0]) for text in self._text[rows]]
        for ids, column in zip(copies, self._column[rows], strict=True):
            ids[column] = self._mask
        return np.array(copies, dtype=np.int64) if len(set(map(len, copies))) == 1 else copies

    def sums(self, values: NDArray[np.floating]) -> FloatArray:
        """Values of the tokens asked about ``[asked]``, summed for each query."""
        return np.bincount(self.query, weights=values, minlength=len(self._queries)).astype(np.float64)


def parts_of_all(several: Sequence[MaskedRows]) -> Iterator[MaskedCopies]:
    """The parts of each, those that are asked for about as many tokens together, no more than written out at once.

    The tokens asked about are numbered on from one to the next.
    """
    waiting: dict[int, list[MaskedCopies]] = {}
    offset = 0
    for masked in several:
        for part in masked.parts():
            own = waiting.setdefault(int(np.frexp(part.tokens.shape[1])[1]), [])
            own.append(part._replace(asked=part.asked + offset))
            if sum(len(each.rows) * len(each.rows[0]) for each in own) >= TOGETHER:
                yield _one_of(own)
                own.clear()
        offset += len(masked.query)
    yield from (_one_of(own) for own in waiting.values() if own)


def _one_of(parts: Sequence[MaskedCopies]) -> MaskedCopies:
    """One part of several."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.tokens.shape[1] for part in parts)
    tokens, asked = (
        np.concatenate([np.pad(each, ((0, 0), (0, width - each.shape[1])), mode="edge") for each in column])
        for column in ([part.tokens for part in parts], [part.asked for part in parts])
    )
    rows = join_rows([part.rows for part in parts])
    return MaskedCopies(rows, np.concatenate([part.columns for part in parts]), tokens, asked)


def _distinct_rows(rows: IntArray) -> tuple[IntArray, IntArray]:
    """The first of each kind of row of ``[n, length]``, and the number of each row's kind ``[n]``."""
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    # As plain bytes, which numpy sorts far faster than rows of numbers.
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    return first, kind


def varying_places(queries: Sequence[Query]) -> list[list[int]]:
    """Of the places each query asks about, those whose token is not the same in all texts of its length."""
    lengths = np.array([len(ids) for ids, _ in queries], dtype=np.int64)
    varying = {}
    for length in np.unique(lengths):
        ids = np.array([ids for ids, _ in queries if len(ids) == length], dtype=np.int64)
        varying[int(length)] = set(np.flatnonzero((ids != ids[0]).any(axis=0)).tolist())
    return [[place for place in places if place in varying[len(ids)]] for ids, places in queries]
