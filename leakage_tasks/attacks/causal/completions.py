"""Observed costs of single tokens, and the numbers of completions of partial fillings that they imply.

A pool is a last token in one tree. Costs are in bins, from 0 to the bound of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from leakage_tasks.attacks.causal.nodes import ArrayRecord
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

BINS = 256
"""Number of bins for costs from 0 to the bound."""


@dataclass(frozen=True)
class Steps(ArrayRecord):
    """Observed costs of m children of visited nodes, in bins, with pools and weights; all fields have shape ``[m]``.

    A pool is a last token in one tree. ``last`` is the pool of the parent, ``last_after`` that of the child.
    """

    last: IntArray
    last_after: IntArray
    bins: FloatArray
    weights: FloatArray


class ObservedSteps(NamedTuple):
    """Steps without weights from nodes of one ``kind`` to children of one kind ``after``, with the parents' rows."""

    kind: int
    after: int
    parents: IntArray
    steps: Steps


@dataclass(frozen=True)
class Observed:
    """Pools of n nodes, the rows of the nodes of each kind, and the steps to their children."""

    last: IntArray
    kinds: Sequence[tuple[int, BoolArray | slice]]
    parts: Sequence[ObservedSteps]


def ends_of(steps: Steps, pools: int) -> FloatArray:
    """Return the number of fillings that ``steps`` complete, by pool of the parent and cost, ``[pools, BINS]``."""
    low, lower, upper = _binned(steps)
    cells, size = steps.last * (BINS + 1) + low, pools * (BINS + 1)
    weights = np.bincount(cells, lower, size) + np.bincount(cells + 1, upper, size)
    # NumPy counts without any step are integers.
    ends: FloatArray = weights.reshape(pools, BINS + 1)[:, :-1].cumsum(axis=1, dtype=np.float64)
    return ends


def completions_of(steps: Steps, below: FloatArray) -> FloatArray:
    """Return the number of completions through ``steps``, by pool of the parent and cost, ``[pools, BINS]``.

    ``steps`` are in order of ``last``. ``below`` ``[pools, BINS]`` are the numbers after a child, by its pool, which do
    not decrease with the cost. A cost between two bins counts partly for each of the two. Only the columns between the
    lowest and the highest total cost are computed, which are often few; the columns after them are equal.
    """
    if not len(steps):
        return np.zeros_like(below)
    pools, (low, lower, upper) = len(below), _binned(steps)
    first = int(below.max(axis=0).astype(bool).argmax() + low.min())
    constant = int((below == below[:, -1:]).all(axis=0).argmax() + low.max()) + 1
    columns = slice(min(first, BINS - 1), min(constant + 1, BINS))
    ends, each = np.searchsorted(steps.last, np.arange(pools + 1)), np.arange(len(steps))
    rows = np.concatenate([ends, ends[1:] + len(steps)])
    weights = np.concatenate([lower, upper]), np.concatenate([each, each]), rows
    spread = sparse.csr_array(weights, shape=(2 * pools, len(steps)))
    shifted = spread @ _shifted(below, steps.last_after, low, columns)
    made = np.empty_like(below)
    made[:, : columns.start] = 0
    np.add(shifted[:pools, 1:], shifted[pools:, :-1], out=made[:, columns])
    made[:, columns.stop :] = made[:, columns.stop - 1 : columns.stop]
    return made


def in_order(steps: Steps) -> Steps:
    """Return steps in order of their parents' pools."""
    return steps[np.argsort(steps.last, kind="stable")]


def _binned(steps: Steps) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return the lower bin of each step's cost, and the weights of this bin and of the next one."""
    low = np.minimum(steps.bins.astype(np.int64), BINS - 1)
    upper = steps.weights * (steps.bins - low)
    return low, steps.weights - upper, upper


def by_value(values: IntArray) -> Iterator[tuple[int, BoolArray | slice]]:
    """Yield each distinct value with the elements that have it: a mask, or a slice of all if there is only one."""
    if len(values) and (values == values[0]).all():
        yield int(values[0]), slice(None)
        return
    for value in np.unique(values).tolist():
        yield value, values == value


def _shifted(values: FloatArray, rows: IntArray, shifts: IntArray, columns: slice) -> FloatArray:
    """Return some ``rows`` of ``values`` ``[n, BINS]``, each shifted up by its number of bins and filled with zeros.

    A shift adds a cost to a whole row. The result ``[rows, 1 + columns]`` begins with the bin below the ``columns``.
    """
    least, most = int(shifts.min()), int(shifts.max())
    first, width = columns.start - 1 - most, columns.stop - columns.start + 1
    padded = np.zeros((len(values), columns.stop - least - first))
    padded[:, max(-first, 0) :] = values[:, max(first, 0) : columns.stop - least]
    # NumPy's functions for windows take longer than the selection.
    shape, strides = (len(values), most - least + 1, width), (*padded.strides, padded.itemsize)
    shifted: FloatArray = np.ndarray(shape, padded.dtype, padded, 0, strides)[rows, most - shifts]
    return shifted


def interpolated(values: FloatArray, rows: IntArray, positions: FloatArray) -> FloatArray:
    """Interpolate ``values`` ``[n, BINS]`` of some rows linearly at fractional bin positions."""
    low = np.minimum(positions.astype(np.int64), values.shape[1] - 2)
    below = values[rows, low]
    interpolated: FloatArray = below + (values[rows, low + 1] - below) * (positions - low)
    return interpolated
