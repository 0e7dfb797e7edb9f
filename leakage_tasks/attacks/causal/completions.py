"""Observed costs of single tokens, and the numbers of completions of partial fillings that they imply.

A pool is a last token in one tree. Costs are in bins, from 0 to the bound of the tree. Each range of costs holds only
the bins in which something changes, since these are often few. The narrower the costs of a token, the more bins tell
them apart (:func:`bins_for`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

FEWEST, MOST = 128, 1024
"""Numbers of bins for costs from 0 to the bound; between them are powers of 2."""
IN_SPREAD = 3.0
"""Least number of bins in the standard deviation of a token's cost, up to :data:`MOST` bins in all. With fewer,
predictions are blurred, and draws vary more; more take time and no longer reduce the variance."""
WIDEST = 0.2
"""Largest width of a bin in bits, up to :data:`MOST` bins in all, unless costs vary much. Each token blurs a prediction
by up to a bin, which matters most for a low rank: secrets of 16 digits took 40 % more rows with a width of 0.23."""
MOST_IN_SPREAD = 12.0
"""Number of bins in the standard deviation of a token's cost that suffices, even if they are wider than :data:`WIDEST`.
Where a model has memorized other secrets, costs differ by 12 bits: with 1,024 bins the host took half more time than
with 256, for which secrets of 9 digits took at most 1 % more rows, and secrets of 25 digits 4 %."""
PAIR_BITS = 11
PAIR = 1 << PAIR_BITS
"""Number of cells of a pair of pools: a power of 2, above :data:`MOST` bins and the bin after them."""
SPARSE = 24
"""Number of cells for each one with a weight from which on a table is multiplied as a sparse matrix."""
AT_ONCE, AT_ONCE_SPARSE = 1 << 14, 1 << 18
"""Maximum number of shifted values in memory at once, which a CPU's cache holds. SciPy takes some 100 µs to set up a
sparse matrix, so its product takes more values at once."""


def bins_for(bound: float, spread: float) -> int:
    """Return the number of bins for costs in bits up to ``bound``; a token's have the standard deviation ``spread``."""
    bins, width = FEWEST, max(min(spread / IN_SPREAD, WIDEST), spread / MOST_IN_SPREAD)
    while bins < MOST and bins * width < bound:
        bins *= 2
    return bins


class Steps(NamedTuple):
    """Weights of observed costs in m ``cells``; both fields have shape ``[m]``.

    Cell ``PAIR`` · p + b is bin b of pair p, a pool of parents and a pool of children in one tree.
    """

    cells: IntArray
    weights: FloatArray

    @classmethod
    def of(cls, pairs: IntArray, bins: FloatArray) -> Self:
        """Return one step per pair ``[n]``, of weight 1, in two cells each: a cost counts partly for the bins around
        it."""
        low = bins.astype(np.int64)
        cells, weights = np.empty((len(bins), 2), dtype=np.int64), np.empty((len(bins), 2))
        cells[:, 0] = pairs * PAIR + low
        cells[:, 1] = cells[:, 0] + 1
        weights[:, 1] = bins - low
        weights[:, 0] = 1 - weights[:, 1]
        return cls(cells.reshape(-1), weights.reshape(-1))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Concatenate the parts."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class StepTable:
    """Total weights of steps between pools, in a table with a row for each of ``pairs``, from bin ``high`` down to
    ``low``. If few cells have a weight, only these ``cells`` are stored, in order."""

    pairs: int
    low: int
    high: int
    weights: FloatArray
    cells: IntArray | None = None

    @classmethod
    def of(cls, steps: Steps, pairs: int, dtype: DTypeLike = np.float64) -> Self:
        """Return the table of one or more steps between this number of ``pairs``."""
        bins = steps.cells & (PAIR - 1)
        low, high = int(bins.min()), int(bins.max())
        width = high - low + 1
        size, cells = pairs * width, (steps.cells >> PAIR_BITS) * width + (high - bins)
        # Counted in a table of all cells, unless few of them have a weight.
        held = None
        if len(cells) * SPARSE < size:
            held, cells = np.unique(cells, return_inverse=True)
        counted = np.bincount(cells, steps.weights, size if held is None else 0)
        weights: FloatArray = counted.astype(dtype, copy=False)
        if held is None and np.count_nonzero(weights > 0) * SPARSE >= size:
            return cls(pairs, low, high, weights)
        cells = np.flatnonzero(weights)
        return cls(pairs, low, high, weights[cells], cells if held is None else held[cells])

    @property
    def width(self) -> int:
        """The number of bins."""
        return self.high - self.low + 1

    def dense(self) -> FloatArray:
        """Return the weights of all cells, ``[pairs, width]``."""
        weights = self.weights
        if self.cells is not None:
            weights = np.zeros(self.pairs * self.width, weights.dtype)
            weights[self.cells] = self.weights
        return weights.reshape(self.pairs, self.width)

    def steps(self) -> Steps:
        """Return the steps, each cell once, in order of their pairs."""
        cells, weights = self.cells, self.weights
        if cells is None:
            cells = np.flatnonzero(weights)
            weights = weights[cells]
        pairs, columns = np.divmod(cells, self.width)
        return Steps(pairs * PAIR + (self.high - columns), weights)


@dataclass(frozen=True)
class Completions:
    """Numbers of completions by pool and cost, ``numbers`` ``[pools, w]`` from bin ``first`` on.

    The first number of each pool is 0. The last two are equal, unless the last bin is the last of all bins.
    """

    first: int
    numbers: FloatArray

    @property
    def stop(self) -> int:
        """The bin after the last number."""
        return self.first + self.numbers.shape[1]

    def columns(self, first: int, stop: int) -> FloatArray:
        """Return the numbers from bin ``first`` up to ``stop``, ``[pools, stop − first]``."""
        if (first, stop) == (self.first, self.stop):
            return self.numbers
        return self.numbers.take(np.arange(first - self.first, stop - self.first), axis=1, mode="clip")

    def of(self, pools: slice, bins: int) -> Completions:
        """Return the numbers of some pools, up to this number of bins."""
        first, stop = min(self.first, bins - 2), min(self.stop, bins)
        return Completions(first, self.columns(first, stop)[pools])

    def at(self, pools: IntArray, positions: FloatArray) -> FloatArray:
        """Interpolate the numbers of some pools ``[m]`` linearly at fractional bins ``[m]``."""
        width = self.numbers.shape[1]
        return _interpolated(self.numbers.reshape(-1), pools * width, width, positions - self.first)


class JoinedCompletions:
    """Numbers of completions in the pools of several trees, joined from one part per tree."""

    def __init__(self, parts: Sequence[Completions]) -> None:
        self._numbers = np.concatenate([part.numbers.reshape(-1) for part in parts])
        self._pools = len(parts[0].numbers)
        self._first = np.array([part.first for part in parts])
        self._widths = np.array([part.numbers.shape[1] for part in parts])
        self._starts = (self._widths.cumsum() - self._widths) * self._pools

    def at(self, pools: IntArray, positions: FloatArray) -> FloatArray:
        """Interpolate the numbers of some pools ``[m]`` linearly at fractional bins ``[m]``."""
        trees = pools // self._pools
        widths = self._widths[trees]
        starts = self._starts[trees] + (pools - trees * self._pools) * widths
        return _interpolated(self._numbers, starts, widths, positions - self._first[trees])


def _interpolated(numbers: FloatArray, starts: IntArray, widths: int | IntArray, positions: FloatArray) -> FloatArray:
    positions = np.maximum(positions, 0.0)
    low = np.minimum(positions.astype(np.int64), widths - 2)
    cells = starts + low
    below = numbers[cells]
    interpolated: FloatArray = below + (numbers[cells + 1] - below) * (positions - low)
    return interpolated


def one_each(pools: int, dtype: DTypeLike) -> Completions:
    """Return one completion of cost 0 for each pool."""
    return Completions(-1, np.tile(np.array([0, 1, 1], dtype), (pools, 1)))


def ends_of(table: StepTable, bins: int) -> Completions:
    """Return the number of fillings that steps complete, by pool of the parent and cost, in this number of ``bins``; a
    pair is such a pool."""
    numbers = np.zeros((table.pairs, table.width + 1), table.weights.dtype)
    table.dense()[:, ::-1].cumsum(axis=1, out=numbers[:, 1:])
    first, stop = min(table.low - 1, bins - 2), min(table.high + 2, bins)
    return Completions(first, Completions(table.low - 1, numbers).columns(first, stop))


def completions_of(table: StepTable, below: Completions, tokens: int, bins: int) -> Completions:
    """Return the number of completions through steps, by pool of the parent and cost.

    Args:
        table: The steps; pair ``tokens`` · p + t leads from pool p to the child's token t.
        below: The numbers after a child, by its pool, which do not decrease with the cost.
        tokens: The number of pools of each tree.
        bins: The number of bins.
    """
    first, stop = min(below.first + table.low, bins - 2), min(below.stop + table.high, bins)
    # Row s of a window is the numbers shifted up by the cost in column s of the table.
    padded = below.columns(first - table.high, stop - table.low)
    shape, strides = (len(padded), table.width, stop - first), (*padded.strides, padded.itemsize)
    windows: FloatArray = np.ndarray(shape, padded.dtype, padded, 0, strides)
    return Completions(first, (_dense_product if table.cells is None else _sparse_product)(table, windows, tokens))


def _dense_product(table: StepTable, windows: FloatArray, tokens: int) -> FloatArray:
    """Multiply the weights of each tree with the ``windows`` ``[pools, shifts, w]`` of its pools."""
    pools, shifts, width = windows.shape
    weights = table.dense().reshape(-1, tokens, tokens * shifts)
    numbers, size = np.empty((len(weights), tokens, width), windows.dtype), max(1, AT_ONCE // (tokens * shifts * width))
    for start in range(0, len(weights), size):
        trees = slice(start, start + size)
        shifted = windows[start * tokens : (start + size) * tokens].reshape(-1, tokens * shifts, width)
        np.matmul(weights[trees], shifted, out=numbers[trees])
    return numbers.reshape(pools, width)


def _sparse_product(table: StepTable, windows: FloatArray, tokens: int) -> FloatArray:
    """Return the same as :func:`_dense_product`, in time and memory for the cells that have a weight."""
    pools, shifts, width = windows.shape
    assert table.cells is not None
    pairs, columns = np.divmod(table.cells, shifts)
    parents, last = np.divmod(pairs, tokens)
    children = parents - parents % tokens + last
    numbers, held = np.empty((pools, width), windows.dtype), max(len(pairs), 1)
    size = max(1, AT_ONCE_SPARSE * pools // (held * width))
    for start in range(0, pools, size):
        stop = min(start + size, pools)
        ends = np.searchsorted(parents, np.arange(start, stop + 1))
        here = slice(ends[0], ends[-1])
        shifted = windows[children[here], columns[here]]
        spread = table.weights[here], np.arange(len(shifted)), ends - ends[0]
        numbers[start:stop] = sparse.csr_array(spread, shape=(stop - start, len(shifted))) @ shifted
    return numbers


def total(parts: Sequence[Completions]) -> Completions:
    """Return the sums of the numbers of the parts."""
    if len(parts) == 1:
        return parts[0]
    first, stop = min(part.first for part in parts), max(part.stop for part in parts)
    return Completions(first, np.sum([part.columns(first, stop) for part in parts], axis=0))


def by_value(values: IntArray) -> Iterator[tuple[int, BoolArray | slice]]:
    """Yield each distinct value with the elements that have it: a mask, or a slice of all if there is only one."""
    if len(values) and (values == values[0]).all():
        yield int(values[0]), slice(None)
        return
    for value in np.unique(values).tolist():
        yield value, values == value
