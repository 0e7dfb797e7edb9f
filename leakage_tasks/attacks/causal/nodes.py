"""Nodes of search trees that the model has read, and their children, as arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leakage_tasks.core.arrays import ArrayRecord, FloatArray, IntArray

NO_COSTS = np.empty((0, 0))
"""Empty array that replaces ``Nodes.following`` once the children have been computed."""


@dataclass
class Nodes:
    """n nodes of one depth that the model has read: path states, costs ``[n]``, tokens ``[n, d]``, cached states."""

    states: IntArray
    costs: FloatArray
    paths: IntArray
    memory: Any
    following: FloatArray = field(repr=False)
    """Costs of the next token, ``[n, A]``; dropped once the children have been computed."""
    trees: IntArray | None = None
    """Index of each node's tree in a :class:`~leakage_tasks.attacks.causal.forest.Forest`, ascending, ``[n]``."""

    def __len__(self) -> int:
        return len(self.states)

    def without_memory(self, rows: slice = slice(None)) -> Nodes:
        """Return some nodes without cached states."""
        states, costs, paths = self.states[rows], self.costs[rows], self.paths[rows]
        following = self.following[rows] if len(self.following) else self.following
        return Nodes(states, costs, paths, None, following, None if self.trees is None else self.trees[rows])


@dataclass(frozen=True)
class Children(ArrayRecord):
    """m children of some nodes, not yet read by the model.

    Fields of shape ``[m]``: row of the parent in its batch, column of the token, path state and cost.
    """

    parents: IntArray
    columns: IntArray
    states: IntArray
    costs: FloatArray
