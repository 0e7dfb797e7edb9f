"""The frontier of a best-first search: children that were not read yet, in order of cost."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.core.arrays import FloatArray


@dataclass
class _Batch:
    """Children of nodes of one depth in order of cost, parent and column; children before ``at`` have been taken."""

    nodes: Nodes
    costs: FloatArray
    parents: NDArray[np.int32]
    columns: NDArray[np.int32]
    at: int = 0

    def take(self, most: int, bound: float, other: float, older: bool) -> slice:
        """Take the next 1 to ``most`` children, up to ``bound`` and before the children of another batch.

        ``other`` is the cost of the other batch's next child. If costs are equal, the ``older`` batch comes first.
        """
        within = np.searchsorted(self.costs, bound, side="right")
        cheaper = np.searchsorted(self.costs, other, side="right" if older else "left")
        first, self.at = self.at, max(min(int(within), int(cheaper), self.at + most), self.at + 1)
        return slice(first, self.at)


class Frontier:
    """A priority queue of children by cost, then by age; the heap holds each batch's cheapest remaining child.

    There are several children for each node that is read, so little is stored per child: states are computed when a
    child is taken, and an empty batch is freed.
    """

    def __init__(self, explorer: SearchTree) -> None:
        self._explorer = explorer
        self._heap: list[tuple[float, int]] = []
        self._batches: dict[int, _Batch] = {}
        self._serial = 0

    def add(self, nodes: Nodes, bound: float) -> None:
        """Add the children of a batch that cost no more than ``bound``."""
        children = self._explorer.children(nodes, bound)
        if not len(children):
            return
        order = np.lexsort((children.columns, children.parents, children.costs))
        parents, columns = (column[order].astype(np.int32) for column in (children.parents, children.columns))
        number, self._serial = self._serial, self._serial + 1
        self._batches[number] = _Batch(nodes, children.costs[order], parents, columns)
        heapq.heappush(self._heap, (float(children.costs[order[0]]), number))

    def __bool__(self) -> bool:
        return bool(self._heap)

    def within(self, bound: float) -> int:
        """Return the number of remaining children that cost no more than ``bound``."""
        ends = ((np.searchsorted(batch.costs, bound, side="right"), batch.at) for batch in self._batches.values())
        return sum(max(int(end) - first, 0) for end, first in ends)

    def cheapest(self) -> float:
        """Return the cost of the cheapest remaining child."""
        return self._heap[0][0] if self._heap else np.inf

    def pop(self, most: int, bound: float) -> list[tuple[Nodes, Children]]:
        """Remove and return the cheapest children, up to ``most`` and ``bound``, with their parents' batches."""
        taken: dict[int, tuple[_Batch, list[slice]]] = {}
        while self._heap and most and self._heap[0][0] <= bound:
            _, number = heapq.heappop(self._heap)
            batch = self._batches[number]
            other, other_number = self._heap[0] if self._heap else (np.inf, self._serial)
            part = batch.take(most, bound, other, number < other_number)
            taken.setdefault(number, (batch, []))[1].append(part)
            most -= part.stop - part.start
            if batch.at < len(batch.costs):
                heapq.heappush(self._heap, (float(batch.costs[batch.at]), number))
            else:
                del self._batches[number]
        return [(batch.nodes, self._children(batch, parts)) for batch, parts in taken.values()]

    def _children(self, batch: _Batch, parts: Sequence[slice]) -> Children:
        indices = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        parents, columns = (column[indices].astype(np.int64) for column in (batch.parents, batch.columns))
        states = self._explorer.paths.table(batch.nodes.states[parents])[np.arange(len(indices)), columns]
        return Children(parents, columns, states, batch.costs[indices])
