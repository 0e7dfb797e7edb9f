"""Number of fillings below each state of a space's token paths, if every path spells exactly one filling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from leakage_tasks.canaries.spaces import Space
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.targets.protocols import Paths

MOST_STATES = 4096
"""Maximum number of states to count; a larger graph is treated as one whose numbers are unknown."""
_COUNTED: WeakKeyDictionary[Any, PathCounts | None] = WeakKeyDictionary()
"""Counts by graph, which the paths of several canaries share."""


@dataclass(frozen=True)
class PathCounts:
    """Number of fillings whose paths go through a state, ``fillings`` ``[s]``, for all ``states`` ``[s]`` in order.

    A uniform random filling that goes through a node chooses a child with probability ``of(child) / of(node)``.
    """

    states: IntArray
    fillings: FloatArray

    def of(self, states: IntArray) -> FloatArray:
        """Return the number of fillings of each state, ``[n]``."""
        counts: FloatArray = self.fillings[np.searchsorted(self.states, states)]
        return counts


def path_counts(paths: Paths, space: Space) -> PathCounts | None:
    """Count the fillings below all states; return None if some path spells no filling or several.

    Every filling has one path, so there are as many paths as fillings only if each path spells one filling.
    """
    graph = getattr(paths, "graph", paths)
    if not _is_unambiguous(space):
        return None
    if graph not in _COUNTED:
        _COUNTED[graph] = _counts(paths)
    counts = _COUNTED[graph]
    if counts is None or not np.isclose(counts.of(np.array([paths.root]))[0], float(space.size), rtol=1e-9):
        return None
    return counts


def _counts(paths: Paths) -> PathCounts | None:
    """Count the paths below each state; return None if there are too many states, or if a text may end or go on."""
    tables = _tables(paths)
    if tables is None:
        return None
    states = np.array(sorted(tables))
    fillings = paths.ends(states).astype(np.float64)
    if (paths.ends(states) & paths.goes_on(states)).any():
        return None
    order = np.argsort(paths.to_come(states), kind="stable")
    for row in order.tolist():
        children, times = tables[int(states[row])]
        fillings[row] += fillings[np.searchsorted(states, children)] @ times
    return PathCounts(states, fillings)


def _tables(paths: Paths) -> dict[int, tuple[IntArray, IntArray]] | None:
    """Return the children of each state, each with its number of tokens; None if there are too many states."""
    tables: dict[int, tuple[IntArray, IntArray]] = {}
    pending = [paths.root]
    while pending:
        for state, table in zip(pending, paths.table(np.array(pending)), strict=True):
            tables[state] = np.unique(table[table >= 0], return_counts=True)
        if len(tables) > MOST_STATES:
            return None
        reached = {int(child) for state in pending for child in tables[state][0]}
        pending = sorted(reached - tables.keys())
    return tables


def _is_unambiguous(space: Space) -> bool:
    """Return True if no text can be parsed into two fillings: each slot but the last has one length or a clear end."""
    return all(
        len(slot.lengths) == 1 or (piece and not any(piece[0] in value for value in slot.values))
        for slot, piece in zip(space.slots[:-1], space.pieces[1:], strict=False)
    )
