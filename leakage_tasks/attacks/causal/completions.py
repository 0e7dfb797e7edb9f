"""Observed costs of single tokens, and the numbers of completions of partial fillings that they imply.

A pool is a last token in one tree. Costs are in bins, from 0 to the bound of the tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from leakage_tasks.attacks.causal.nodes import ArrayRecord
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

BINS = 256
"""Number of bins for costs from 0 to the bound."""
NO_SHARE = 1e-30
"""Share of the largest number of completions that counts as 0; arithmetic with still smaller float32 is slow."""


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
    ends: FloatArray = weights.reshape(pools, BINS + 1)[:, :-1].cumsum(axis=1)
    return ends


def completions_of(steps: Steps, below: FloatArray, largest: FloatArray) -> FloatArray:
    """Return the number of completions through ``steps``, by pool of the parent and cost, ``[pools, BINS]``.

    ``steps`` are in order of ``last``. ``below`` ``[pools, BINS]`` are the numbers after a child, by its pool, and
    ``largest`` ``[pools]`` is the maximum of ``below`` in the pool's tree. A cost between two bins counts partly for
    each of the two. Sums are in float32, which takes half the time.
    """
    pools, (low, lower, upper) = len(below), _binned(steps)
    scale = np.maximum(largest, 1e-300)[:, None]
    shares = (below / scale).astype(np.float32)
    shares[shares < NO_SHARE] = 0
    ends, each = np.searchsorted(steps.last, np.arange(pools + 1)), np.arange(len(steps))
    rows = np.concatenate([ends, ends[1:] + len(steps)])
    weights = np.concatenate([lower, upper], dtype=np.float32), np.concatenate([each, each]), rows
    spread = sparse.csr_array(weights, shape=(2 * pools, len(steps)))
    shifted = spread @ _shifted(shares, steps.last_after, low)
    made: FloatArray = (shifted[:pools, 1:] + shifted[pools:, :-1]) * scale
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


def _shifted(values: NDArray[np.float32], rows: IntArray, shifts: IntArray) -> NDArray[np.float32]:
    """Return some ``rows`` of ``values`` ``[n, BINS]``, each shifted up by its number of bins and filled with zeros.

    A shift adds a cost to a whole row. The result ``[rows, 1 + BINS]`` begins with the bin below the first one.
    """
    padded = np.concatenate([np.zeros_like(values), values], axis=1)
    # NumPy's functions for windows take longer than the selection.
    windows = np.ndarray((len(values), BINS, BINS + 1), padded.dtype, padded, 0, (*padded.strides, padded.itemsize))
    shifted: NDArray[np.float32] = windows[rows, BINS - 1 - shifts]
    return shifted


def interpolated(values: FloatArray, rows: IntArray, positions: FloatArray) -> FloatArray:
    """Interpolate ``values`` ``[n, BINS]`` of some rows linearly at fractional bin positions."""
    low = np.minimum(positions.astype(np.int64), values.shape[1] - 2)
    below = values[rows, low]
    interpolated: FloatArray = below + (values[rows, low + 1] - below) * (positions - low)
    return interpolated
