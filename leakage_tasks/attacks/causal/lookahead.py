"""Prediction of the number of completions of a partial filling that stay below a cost.

If draws chose each child in proportion to the true number of cheap completions below it, all draws would have equal
weight. That number is unknown, but nodes that were read give samples of the costs. Next-token costs are pooled by the
remaining length and by the last token, as if they depended on nothing else, and combined from the end by dynamic
programming. If the costs of a model follow this assumption, estimates from such draws have almost no variance;
otherwise the variance grows with the dependence on earlier tokens. Estimates are unbiased in any case, because the true
probability of each draw is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self, TypeVar

import numpy as np

from leakage_tasks.attacks.causal.completions import (
    Completions,
    JoinedCompletions,
    Steps,
    by_value,
    completions_of,
    ends_of,
    one_each,
    total,
)
from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.proposals import shares
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.step_records import END, Observed, ObservedSteps, StepRecords
from leakage_tasks.core.arrays import FloatArray, IntArray

Value = TypeVar("Value")
LARGEST_ALPHABET = 32
"""For larger alphabets, costs are not pooled by last token, because each pool would have too few nodes."""
PRIOR = 2.0
"""Weight, in nodes, of the mean over all last tokens in the estimate for one last token."""
LARGEST_SINGLE = 2**40
"""Number of fillings from which on expectations have double precision: along long rare paths they are below 2^-149,
the smallest number in single precision."""
TOGETHER = 16
"""Number of trees whose expectations are computed together, so that the arrays fit in a CPU's cache."""


class Lookahead:
    """A proposal that chooses a child in proportion to the expected number of cheap completions below it.

    A completion is cheap if it costs no more than the bound. Nodes are of one kind if the same number of tokens may
    follow them (``Paths.to_come``). Expected numbers are continuous in the observed costs, so that the last digits of a
    cost change no draw.

    A lookahead for a forest has a bound and its own expectations for each tree, which are computed together.
    """

    def __init__(self, explorer: SearchTree, bound: float | FloatArray, bins: int) -> None:
        """Set up a lookahead that has seen nothing.

        Args:
            explorer: A search tree, or a forest.
            bound: The bound in bits, or that of each tree ``[trees]``.
            bins: Number of bins for costs up to the bound.
        """
        self._paths = explorer.paths
        self._step: FloatArray = np.maximum(np.atleast_1d(bound), 1e-6) / (bins - 1)
        self._bins: IntArray = np.full(len(self._step), bins)
        self._dtype = np.float32 if explorer.space.size < LARGEST_SINGLE else np.float64
        columns = len(explorer.paths.columns)
        self._tokens = columns if columns <= LARGEST_ALPHABET else 1
        self._pools = self._tokens * len(self._step)
        self._records = StepRecords(len(self._step), self._tokens)
        self._expected: dict[int, Completions] = {}
        self._joined: dict[int, JoinedCompletions] = {}
        """Expectations from the lookaheads of single trees."""
        self._is_settled = True

    @property
    def bins(self) -> int:
        """The number of bins; for a forest, the largest number among its trees.

        Costs above a tree's bound do not change the expectations up to this bound.
        """
        return int(self._bins.max())

    @classmethod
    def joined(cls, explorer: SearchTree, parts: Sequence[Self]) -> Self:
        """Return the expectations of the lookaheads of single trees for a forest, which has seen nothing.

        Lookaheads that were copied and never settled are settled first.
        """
        cls.settle_together(explorer, [part for part in parts if not part._is_settled])
        if len(parts) == 1:
            return parts[0]
        whole = cls._of_trees(explorer, parts)
        for kind in {kind for part in parts for kind in part._expected}:
            whole._joined[kind] = JoinedCompletions([part._below(kind) for part in parts])
        return whole

    @classmethod
    def copied(cls, explorer: SearchTree, parts: Sequence[Self]) -> Self:
        """Return a lookahead of a forest with all records of the lookaheads of its trees, before it is settled."""
        whole = cls._of_trees(explorer, parts)
        whole._records = StepRecords.joined([part._records for part in parts])
        whole._is_settled = False
        return whole

    @classmethod
    def _of_trees(cls, explorer: SearchTree, parts: Sequence[Self]) -> Self:
        """Return a lookahead of a forest that has seen nothing, with the bins of the lookaheads of its trees."""
        whole = cls(explorer, np.ones(len(parts)), bins=2)
        whole._step = np.concatenate([part._step for part in parts])
        whole._bins = np.concatenate([part._bins for part in parts])
        return whole

    def copy(self) -> Self:
        """Return a lookahead with the same records, which learns on its own."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other._records = self._records.copy()
        return other

    @classmethod
    def settle_together(cls, explorer: SearchTree, parts: Sequence[Self]) -> None:
        """Settle the lookaheads of single trees of a forest, :data:`TOGETHER` of them at once."""
        # Trees with few bins take less time among others with few.
        parts = sorted(parts, key=lambda part: part.bins)
        for first in range(0, len(parts), TOGETHER):
            some = parts[first : first + TOGETHER]
            whole = cls.copied(explorer, some)
            whole.settle()
            for tree, part in enumerate(some):
                part._expected, part._is_settled = whole._expected_in(tree), True

    def of_tree(self, tree: int) -> Self:
        """Return the lookahead of one tree, with what it has seen."""
        if len(self._step) == 1:
            return self
        part = object.__new__(type(self))
        vars(part).update(vars(self), _pools=self._tokens)
        part._step, part._bins = self._step[tree : tree + 1], self._bins[tree : tree + 1]
        part._expected, part._records = self._expected_in(tree), self._records.of_tree(tree)
        return part

    def _expected_in(self, tree: int) -> dict[int, Completions]:
        """Return the expectations in a tree."""
        pools, bins = slice(tree * self._tokens, (tree + 1) * self._tokens), int(self._bins[tree])
        known = self._records.known
        return {kind: numbers.of(pools, bins) for kind, numbers in self._expected.items() if known[kind][tree]}

    def teach(self, parts: Sequence[Self]) -> None:
        """Add what this lookahead of a forest has seen to the lookaheads of its trees."""
        if parts[0] is self:
            return
        for tree, part in enumerate(parts):
            part._records.include(self._records.of_tree(tree))

    def learn_from(self, explorer: SearchTree, nodes: Nodes, at: IntArray) -> None:
        """Record the costs of the children of nodes, weighted by the number of times that a node's row is in ``at``."""
        self.learn(self.observed(nodes, explorer.children(nodes)), at)

    def observed(self, nodes: Nodes, children: Children) -> Observed:
        """Return a record of nodes with all of their children, for this lookahead and others up to the same bound."""
        paths, trees = self._paths, self._trees(nodes)
        kinds, last = paths.to_come(nodes.states), self._last(nodes, trees)
        bins = children.costs - nodes.costs[children.parents]
        bins /= self._step[0 if trees is None else trees[children.parents]]
        near = bins < self.bins
        ends, onward = (near & which(children.states) for which in (paths.ends, paths.goes_on))
        parts = []
        for chosen, is_end in ((ends, True), (onward, False)):
            rows = np.flatnonzero(chosen)
            if not len(rows):
                continue
            after = np.full(len(rows), END) if is_end else paths.to_come(children.states[rows])
            for kind, here in by_value(kinds[children.parents[rows]]):
                for kind_after, there in by_value(after[here]):
                    picked = rows[here][there]
                    parents = children.parents[picked]
                    pairs = last[parents] if is_end else last[parents] * self._tokens
                    if not is_end and self._tokens > 1:
                        pairs += children.columns[picked]
                    steps = Steps.of(pairs, bins[picked])
                    parts.append(ObservedSteps(kind, kind_after, np.repeat(parents, 2), steps))
        return Observed(last, list(by_value(kinds)), parts)

    def learn(self, observed: Observed, at: IntArray) -> None:
        """Record the costs of observed nodes, weighted by the number of times that a node's row is in ``at``."""
        self._records.add(observed, at)

    def settle(self) -> None:
        """Recompute the expected numbers from all records so far; later records have no effect until the next call."""
        self._expected, self._is_settled = {}, True
        for kind in sorted(self._records.nodes):
            self._expected[kind] = self._combined(kind)

    def _trees(self, nodes: Nodes) -> IntArray | None:
        """Return the tree of each node; None for a lookahead of one tree."""
        return nodes.trees if len(self._step) > 1 else None

    def _pools_of(self, columns: IntArray, trees: IntArray | None) -> IntArray:
        """Return the pools of last tokens with these columns in these trees."""
        pools = columns if self._tokens > 1 else np.zeros(len(columns), dtype=np.int64)
        return pools if trees is None else pools + trees * self._tokens

    def _last(self, nodes: Nodes, trees: IntArray | None) -> IntArray:
        columns = np.zeros(len(nodes), dtype=np.int64)
        if self._tokens > 1 and nodes.paths.shape[1]:
            columns = np.searchsorted(self._paths.columns, nodes.paths[:, -1])
        return self._pools_of(columns, trees)

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float | FloatArray) -> FloatArray:
        """Return each child's share of the expected low-cost completions below its node, ``[m]``."""
        trees = self._trees(nodes)
        mass = self.expected(children, bound, trees if trees is None else trees[children.parents])
        total = np.bincount(children.parents, weights=mass, minlength=len(nodes))[children.parents]
        return shares(np.where(total > 0, mass, 1.0), children.parents, len(nodes))

    def expected(self, children: Children, bound: float | FloatArray, trees: IntArray | None = None) -> FloatArray:
        """Return the expected number of fillings below each child that cost no more than ``bound``.

        Args:
            children: m children.
            bound: Cost in bits, or that of each child ``[m]``.
            trees: The tree of each child ``[m]``; None for a lookahead of one tree.

        Returns:
            The numbers, ``[m]``.
        """
        paths = self._paths
        left = np.maximum(bound - children.costs, 0.0) / self._step[0 if trees is None else trees]
        mass: FloatArray = paths.ends(children.states).astype(np.float64)
        onward = np.flatnonzero(paths.goes_on(children.states))
        if not len(onward):
            return mass
        kinds = paths.to_come(children.states[onward])
        pools = self._pools_of(children.columns[onward], trees if trees is None else trees[onward])
        for kind, here in by_value(kinds):
            rows = onward[here]
            below = _nearest(self._joined, kind) or self._below(kind)
            mass[rows] += below.at(pools[here], left[rows])
        return mass

    def _below(self, kind: int) -> Completions:
        """Return the expected number of completions after nodes of a kind, by pool and cost.

        For a kind without records, use the nearest kind that has fewer tokens to come.
        """
        return _nearest(self._expected, kind) or one_each(self._pools, self._dtype)

    def _combined(self, kind: int) -> Completions:
        """Return the expected number of completions of one kind, from its records and the kinds with fewer tokens to
        come."""
        parts = [
            ends_of(table, self.bins)
            if after == END
            else completions_of(table, self._below(after), self._tokens, self.bins)
            for after, table in self._records.tables(kind, self._dtype)
        ]
        made = total(parts or [Completions(-1, np.zeros((self._pools, 2), self._dtype))])
        unknown = ~self._records.known[kind]
        below = self._below(kind)
        if unknown.any():
            first, stop = min(made.first, below.first), max(made.stop, below.stop)
            made, below = (Completions(first, part.columns(first, stop)) for part in (made, below))
        by_tree = made.numbers.reshape(len(self._step), self._tokens, -1)
        nodes = self._records.nodes[kind].reshape(-1, self._tokens)
        share = (PRIOR / np.maximum(nodes.sum(axis=1), 1e-30)).astype(self._dtype)
        by_tree += by_tree.sum(axis=1, keepdims=True) * share[:, None, None]
        per_node: FloatArray = (1 / (nodes + PRIOR)).astype(self._dtype)
        by_tree *= per_node[:, :, None]
        if unknown.any():
            by_tree[unknown] = below.numbers.reshape(by_tree.shape)[unknown]
        return made


def _nearest(by_kind: Mapping[int, Value], kind: int) -> Value | None:
    """Return the value of a kind, else of the nearest kind that has fewer tokens to come; None if there is none."""
    known = [shorter for shorter in by_kind if shorter <= kind]
    return by_kind[max(known)] if known else None
