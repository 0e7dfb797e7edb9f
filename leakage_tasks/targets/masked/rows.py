"""The masked copies of many texts, one for each queried token; equal copies are made once.

Texts that differ only in the token under the mask share a copy, whose prediction scores the tokens of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.batches import Rows, join_rows

Query = tuple[list[int], list[int]]
"""A text's tokens, and the positions of the queried tokens."""
TOGETHER = 1 << 20
"""Maximum number of tokens of masked copies that are materialized at once."""


class MaskedCopies(NamedTuple):
    """Some masked copies, and the tokens that each scores."""

    rows: Rows
    """Token ids, one array ``[n, length]`` if all copies have equal length."""
    columns: IntArray
    """Column of each row's mask, ``[n]``."""
    tokens: IntArray
    """Tokens to score, ``[n, width]``; the last token is repeated in rows with fewer tokens."""
    queried: IntArray
    """Number of each of these among all queried tokens, ``[n, width]``."""


class MaskedRows:
    """The distinct masked copies of the texts in ``queries``.

    The queried tokens are numbered from 0, in the order of the queries and of the positions within each query.
    """

    def __init__(self, queries: Sequence[Query], mask: int) -> None:
        self._queries, self._mask = queries, mask
        self.query = np.repeat(np.arange(len(queries)), [len(places) for _, places in queries])
        """Index of the query of each queried token, shape ``[queried]``."""
        self._places = np.array([position for _, places in queries for position in places], dtype=np.int64)
        self._tokens = np.array([ids[position] for ids, places in queries for position in places], dtype=np.int64)
        self._distinct()

    def __len__(self) -> int:
        return len(self._text)

    def _distinct(self) -> None:
        """Find the texts and positions of the distinct copies, and the copy that scores each token."""
        lengths = np.array([len(ids) for ids, _ in self._queries], dtype=np.int64)[self.query]
        self._row = np.zeros(len(self.query), dtype=np.int64)
        texts: list[IntArray] = []
        columns: list[IntArray] = []
        made = 0
        for length in np.unique(lengths):
            here = np.flatnonzero(lengths == length)
            numbers, text = np.unique(self.query[here], return_inverse=True)
            ids = np.array([self._queries[query][0] for query in numbers], dtype=np.int64)
            # Columns that are equal in all texts cannot distinguish copies.
            varying = np.flatnonzero((ids != ids[0]).any(axis=0))
            for position in np.unique(self._places[here]):
                at = self._places[here] == position
                first, row = _distinct_rows(ids[text[at]][:, varying[varying != position]])
                texts.append(numbers[text[at]][first])
                columns.append(np.full(len(first), position))
                self._row[here[at]] = made + row
                made += len(first)
        self._text = np.concatenate([np.empty(0, dtype=np.int64), *texts])
        self._column = np.concatenate([np.empty(0, dtype=np.int64), *columns])

    def parts(self) -> Iterator[MaskedCopies]:
        """Yield all copies, grouped by similar numbers of tokens to score and by similar length."""
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
                queried = order[starts[some][:, None] + np.minimum(np.arange(last.max() + 1), last)]
                yield MaskedCopies(self._write_out(some), self._column[some], self._tokens[queried], queried)

    def _write_out(self, rows: IntArray) -> Rows:
        copies = [list(self._queries[text][0]) for text in self._text[rows]]
        for ids, column in zip(copies, self._column[rows], strict=True):
            ids[column] = self._mask
        return np.array(copies, dtype=np.int64) if len(set(map(len, copies))) == 1 else copies

    def sums(self, values: NDArray[np.floating]) -> FloatArray:
        """Return values of the queried tokens ``[queried]``, summed for each query."""
        return np.bincount(self.query, weights=values, minlength=len(self._queries)).astype(np.float64)


def batched_copies(several: Sequence[MaskedRows]) -> Iterator[MaskedCopies]:
    """Yield the copies of all, grouped by similar numbers of tokens to score, up to :data:`TOGETHER` tokens at once.

    The queried tokens are numbered consecutively over all of ``several``.
    """
    waiting: dict[int, list[MaskedCopies]] = {}
    offset = 0
    for masked in several:
        for part in masked.parts():
            copies = waiting.setdefault(int(np.frexp(part.tokens.shape[1])[1]), [])
            copies.append(part._replace(queried=part.queried + offset))
            if sum(len(part.rows) * len(part.rows[0]) for part in copies) >= TOGETHER:
                yield _merged(copies)
                copies.clear()
        offset += len(masked.query)
    yield from (_merged(copies) for copies in waiting.values() if copies)


def _merged(parts: Sequence[MaskedCopies]) -> MaskedCopies:
    """Return several parts as one."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.tokens.shape[1] for part in parts)
    tokens, queried = (
        np.concatenate([np.pad(array, ((0, 0), (0, width - array.shape[1])), mode="edge") for array in column])
        for column in ([part.tokens for part in parts], [part.queried for part in parts])
    )
    rows = join_rows([part.rows for part in parts])
    return MaskedCopies(rows, np.concatenate([part.columns for part in parts]), tokens, queried)


def _distinct_rows(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Return the index of the first of each group of equal rows ``[n, length]``, and each row's group ``[n]``."""
    if not rows.shape[1]:
        return np.zeros(1, dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    # numpy sorts plain bytes far faster than rows of numbers.
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    _, first, kind = np.unique(whole, return_index=True, return_inverse=True)
    return first, kind


def varying_positions(queries: Sequence[Query]) -> list[list[int]]:
    """Return the positions of each query whose token is not equal in all texts of its length."""

    lengths = np.array([len(ids) for ids, _ in queries], dtype=np.int64)
    varying = {}
    for length in np.unique(lengths):
        ids = np.array([ids for ids, _ in queries if len(ids) == length], dtype=np.int64)
        varying[int(length)] = set(np.flatnonzero((ids != ids[0]).any(axis=0)).tolist())
    return [[position for position in positions if position in varying[len(ids)]] for ids, positions in queries]
