"""Observed costs of steps in one tree or in the trees of a forest, by the kinds of parent and child.

Nodes are of one kind if the same number of tokens may follow them. A pool is a last token in one tree; the pools of
each tree have consecutive numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike

from leakage_tasks.attacks.causal.completions import PAIR, Steps, StepTable
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

END = -1
"""The kind of a child that completes a filling."""
MOST_SEPARATE = 1 / 4
"""Number of recorded steps, as a share of the cells, from which on steps in equal cells are joined to save memory."""


class ObservedSteps(NamedTuple):
    """Steps of weight 1 from nodes of one ``kind`` to children of one kind ``after``, with the row of the parent in
    each cell."""

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


class StepRecords:
    """The nodes and steps that a lookahead has seen.

    ``nodes`` has the number of nodes of each kind by pool, ``[pools]``. ``known`` is true for each tree with nodes of a
    kind, ``[trees]``.
    """

    def __init__(self, trees: int, tokens: int) -> None:
        """Set up records of nothing, for some trees with ``tokens`` pools each."""
        self._trees, self._tokens = trees, tokens
        self.nodes: dict[int, FloatArray] = {}
        self.known: dict[int, BoolArray] = {}
        self._seen: dict[tuple[int, int], list[Steps]] = {}
        self._ends: dict[tuple[int, int], list[list[int]]] = {}

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Return the records of a forest, joined from one part per tree."""
        whole = cls(len(parts), parts[0]._tokens)
        no_nodes, unknown = np.zeros(whole._tokens), np.zeros(1, dtype=bool)
        for kind in {kind for part in parts for kind in part.nodes}:
            whole.nodes[kind] = np.concatenate([part.nodes.get(kind, no_nodes) for part in parts])
            whole.known[kind] = np.concatenate([part.known.get(kind, unknown) for part in parts])
        for kinds in {kinds for part in parts for kinds in part._seen}:
            several = [(tree, steps) for tree, part in enumerate(parts) for steps in part._seen.get(kinds, ())]
            trees, lengths = [tree for tree, _ in several], [len(steps.cells) for _, steps in several]
            steps = Steps.joined(steps for _, steps in several)
            first = np.repeat(np.array(trees) * whole._cells(kinds[1]), lengths)
            whole._seen[kinds] = [Steps(steps.cells + first, steps.weights)]
        return whole

    def copy(self) -> Self:
        """Return equal records, to which others can be added."""
        other = type(self)(self._trees, self._tokens)
        other.nodes = {kind: nodes.copy() for kind, nodes in self.nodes.items()}
        other.known = {kind: known.copy() for kind, known in self.known.items()}
        other._seen = {kinds: [*several] for kinds, several in self._seen.items()}
        return other

    def add(self, observed: Observed, at: IntArray) -> None:
        """Add observed nodes, weighted by the number of times that a node's row is in ``at``."""
        last, trees = observed.last, self._trees
        times = np.bincount(at, minlength=len(last)).astype(np.float64)
        reached = np.bincount(last[at] // self._tokens, minlength=trees) > 0
        for kind, here in observed.kinds:
            counts = self.nodes.setdefault(kind, np.zeros(trees * self._tokens))
            counts += np.bincount(last[here], weights=times[here], minlength=len(counts))
            known = self.known.setdefault(kind, np.zeros(trees, dtype=bool))
            known |= reached & (np.bincount(last[here] // self._tokens, minlength=trees) > 0)
        for kind, after, parents, steps in observed.parts:
            weighted = Steps(steps.cells, steps.weights * times[parents])
            self._append((kind, after), weighted)

    def of_tree(self, tree: int) -> Self:
        """Return the records of one tree."""
        part = type(self)(1, self._tokens)
        for kind, nodes in self.nodes.items():
            if self.known[kind][tree]:
                part.nodes[kind] = nodes[tree * self._tokens : (tree + 1) * self._tokens].copy()
                part.known[kind] = np.ones(1, dtype=bool)
        for kinds, several in self._seen.items():
            first = tree * self._cells(kinds[1])
            for steps, ends in zip(several, self._ends_of(kinds), strict=True):
                here = slice(*ends[tree : tree + 2])
                if here.start < here.stop:
                    part._seen.setdefault(kinds, []).append(Steps(steps.cells[here] - first, steps.weights[here]))
        return part

    def _ends_of(self, kinds: tuple[int, int]) -> list[list[int]]:
        """Return the first step in each tree, and the number of steps, for each part of the steps between kinds."""
        if kinds not in self._ends:
            # Steps are in order of their trees, which is all that a binary search needs.
            first = np.arange(self._trees + 1) * self._cells(kinds[1])
            self._ends[kinds] = [np.searchsorted(steps.cells, first).tolist() for steps in self._seen[kinds]]
        return self._ends[kinds]

    def include(self, more: Self) -> None:
        """Add other records of one tree to these of the same tree."""
        for kind, nodes in more.nodes.items():
            self.nodes[kind] = self.nodes.get(kind, 0.0) + nodes
            self.known[kind] = np.ones(1, dtype=bool)
        for kinds, several in more._seen.items():
            for steps in several:
                self._append(kinds, steps)

    def _append(self, kinds: tuple[int, int], steps: Steps) -> None:
        """Append steps in order of their trees; equal cells are joined once there are many."""
        several = self._seen.setdefault(kinds, [])
        several.append(steps)
        self._ends.pop(kinds, None)
        if sum(len(part.cells) for part in several) > self._trees * self._cells(kinds[1]) * MOST_SEPARATE:
            table = self._table(*kinds)
            several[:] = [] if table is None else [table.steps()]

    def tables(self, kind: int, dtype: DTypeLike) -> Iterator[tuple[int, StepTable]]:
        """Yield the table of the steps from nodes of a kind to children of each kind, with the kind of the children."""
        for after in sorted(after for parent, after in self._seen if parent == kind):
            if (table := self._table(kind, after, dtype)) is not None:
                yield after, table

    def _table(self, kind: int, after: int, dtype: DTypeLike = np.float64) -> StepTable | None:
        steps = Steps.joined(self._seen[kind, after])
        return StepTable.of(steps, self._trees * self._cells(after) // PAIR, dtype) if len(steps.cells) else None

    def _cells(self, after: int) -> int:
        """Return the number of cells of each tree in steps to children of a kind."""
        return self._tokens * (1 if after == END else self._tokens) * PAIR
