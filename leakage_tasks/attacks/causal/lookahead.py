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
from typing import Self

import numpy as np

from leakage_tasks.attacks.causal.completions import (
    BINS,
    Observed,
    ObservedSteps,
    Steps,
    by_value,
    completions_of,
    ends_of,
    in_order,
    interpolated,
)
from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.proposals import shares
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

LARGEST_ALPHABET = 32
"""For larger alphabets, costs are not pooled by last token, because each pool would have too few nodes."""
PRIOR = 2.0
"""Weight, in nodes, of the mean over all last tokens in the estimate for one last token."""
TOGETHER = 16
"""Number of trees whose expectations are computed together, so that the arrays fit in a CPU's cache."""
END = -1
"""The kind of a child that completes a filling."""


class Lookahead:
    """A proposal that chooses a child in proportion to the expected number of cheap completions below it.

    A completion is cheap if it costs no more than the bound. Nodes are of one kind if the same number of tokens may
    follow them (``Paths.to_come``). Expected numbers are continuous in the observed costs, so that the last digits of a
    cost change no draw.

    A lookahead for a forest has a bound and its own expectations for each tree, which are computed together.
    """

    def __init__(self, explorer: SearchTree, bound: float | FloatArray) -> None:
        """Set up a lookahead that has seen nothing.

        Args:
            explorer: A search tree, or a forest.
            bound: The bound in bits, or that of each tree ``[trees]``.
        """
        self._paths = explorer.paths
        self._step: FloatArray = np.maximum(np.atleast_1d(bound), 1e-6) / (BINS - 1)
        columns = len(explorer.paths.columns)
        self._tokens = columns if columns <= LARGEST_ALPHABET else 1
        self._pools = self._tokens * len(self._step)
        self._seen: dict[int, dict[int, list[Steps]]] = {}
        """Steps by the kinds of parent and child."""
        self._nodes: dict[int, FloatArray] = {}
        """Number of nodes of each kind by pool, ``[pools]``."""
        self._known: dict[int, BoolArray] = {}
        """True for each tree with nodes of a kind, ``[trees]``."""
        self._expected: dict[int, FloatArray] = {}
        self._is_settled = True

    @classmethod
    def joined(cls, explorer: SearchTree, parts: Sequence[Self]) -> Self:
        """Return the expectations of the lookaheads of single trees for a forest, which has seen nothing.

        Lookaheads that were copied and never settled are settled first.
        """
        cls.settle_together(explorer, [part for part in parts if not part._is_settled])
        if len(parts) == 1:
            return parts[0]
        whole = cls(explorer, np.ones(len(parts)))
        whole._step = np.concatenate([part._step for part in parts])
        for kind in {kind for part in parts for kind in part._expected}:
            whole._expected[kind] = np.concatenate([part._below(kind) for part in parts])
        return whole

    @classmethod
    def copied(cls, explorer: SearchTree, parts: Sequence[Self]) -> Self:
        """Return a lookahead of a forest with all records of the lookaheads of its trees, before it is settled."""
        whole = cls(explorer, np.ones(len(parts)))
        whole._step = np.concatenate([part._step for part in parts])
        whole._take_over(parts)
        whole._is_settled = False
        return whole

    @classmethod
    def settle_together(cls, explorer: SearchTree, parts: Sequence[Self]) -> None:
        """Settle the lookaheads of single trees of a forest, :data:`TOGETHER` of them at once."""
        for first in range(0, len(parts), TOGETHER):
            some = parts[first : first + TOGETHER]
            whole = cls.copied(explorer, some)
            whole.settle()
            for part, picked in zip(some, whole.split(), strict=True):
                vars(part).update(vars(picked))

    def _take_over(self, parts: Sequence[Self]) -> None:
        """Take what the lookaheads of the trees have seen."""
        for kind in {kind for part in parts for kind in part._nodes}:
            nodes = [part._nodes.get(kind, np.zeros(self._tokens)) for part in parts]
            known = [part._known.get(kind, np.zeros(1, dtype=bool)) for part in parts]
            self._nodes[kind], self._known[kind] = np.concatenate(nodes), np.concatenate(known)
        for tree, part in enumerate(parts):
            first = tree * self._tokens
            for kind, seen in part._seen.items():
                for after, several in seen.items():
                    picked = self._seen.setdefault(kind, {}).setdefault(after, [])
                    picked += (Steps(s.last + first, s.last_after + first, s.bins, s.weights) for s in several)

    def split(self) -> list[Self]:
        """Return the lookahead of each tree, with what it has seen."""
        if len(self._step) == 1:
            return [self]
        parts = []
        for tree in range(len(self._step)):
            part = object.__new__(type(self))
            vars(part).update(vars(self), _step=self._step[tree : tree + 1], _pools=self._tokens)
            pools = slice(tree * self._tokens, (tree + 1) * self._tokens)
            known = [kind for kind, trees in self._known.items() if trees[tree]]
            part._known = {kind: self._known[kind][tree : tree + 1] for kind in known}
            part._nodes = {kind: self._nodes[kind][pools] for kind in known}
            part._expected = {kind: self._expected[kind][pools] for kind in known if kind in self._expected}
            part._seen = {}
            parts.append(part)
        self._hand_out(parts)
        return parts

    def teach(self, parts: Sequence[Self]) -> None:
        """Add what this lookahead of a forest has seen to the lookaheads of its trees."""
        if parts[0] is self:
            return
        for kind, nodes in self._nodes.items():
            for part, known, picked in zip(parts, self._known[kind], nodes.reshape(len(parts), -1), strict=True):
                if known:
                    part._nodes[kind] = part._nodes.get(kind, 0.0) + picked
                    part._known[kind] = np.ones(1, dtype=bool)
        self._hand_out(parts)

    def _hand_out(self, parts: Sequence[Self]) -> None:
        """Add the steps in each tree to the lookahead of the tree."""
        for kind, seen in self._seen.items():
            for after, several in seen.items():
                steps = in_order(Steps.joined(several))
                ends = np.searchsorted(steps.last, np.arange(len(parts) + 1) * self._tokens).tolist()
                for tree, part in enumerate(parts):
                    if ends[tree] < ends[tree + 1]:
                        picked, first = slice(ends[tree], ends[tree + 1]), tree * self._tokens
                        pools = steps.last[picked] - first, steps.last_after[picked] - first
                        own_steps = Steps(*pools, steps.bins[picked], steps.weights[picked])
                        part._seen.setdefault(kind, {}).setdefault(after, []).append(own_steps)

    def learn_from(self, explorer: SearchTree, nodes: Nodes, at: IntArray) -> None:
        """Record the costs of the children of nodes, weighted by the number of times that a node's row is in ``at``."""
        self.learn(self.observed(nodes, explorer.children(nodes)), at)

    def observed(self, nodes: Nodes, children: Children) -> Observed:
        """Return a record of nodes with all of their children, for this lookahead and others up to the same bound."""
        paths, trees = self._paths, self._trees(nodes)
        kinds, last = paths.to_come(nodes.states), self._last(nodes, trees)
        above = trees if trees is None else trees[children.parents]
        bins = (children.costs - nodes.costs[children.parents]) / self._step[0 if above is None else above]
        near = bins < BINS
        ends, onward = (near & which(children.states) for which in (paths.ends, paths.goes_on))
        by_kind = list(by_value(kinds))
        parts = []
        for chosen, is_end in ((ends, True), (onward, False)):
            rows = np.flatnonzero(chosen)
            after = np.full(len(rows), END) if is_end else paths.to_come(children.states[rows])
            for kind, here in by_value(kinds[children.parents[rows]]):
                for kind_after, there in by_value(after[here]):
                    picked = rows[here][there]
                    parents, weights = children.parents[picked], np.zeros(len(picked))
                    pools = self._pools_of(children.columns[picked], above if above is None else above[picked])
                    steps = Steps(last[parents], pools, bins[picked], weights)
                    parts.append(ObservedSteps(kind, kind_after, parents, steps))
        return Observed(last, by_kind, parts)

    def learn(self, observed: Observed, at: IntArray) -> None:
        """Record the costs of observed nodes, weighted by the number of times that a node's row is in ``at``."""
        last, size = observed.last, len(self._step)
        times = np.bincount(at, minlength=len(last)).astype(np.float64)
        reached = np.bincount(last[at] // self._tokens, minlength=size) > 0
        for kind, here in observed.kinds:
            counts = self._nodes.setdefault(kind, np.zeros(self._pools))
            counts += np.bincount(last[here], weights=times[here], minlength=self._pools)
            known = self._known.setdefault(kind, np.zeros(size, dtype=bool))
            known |= reached & (np.bincount(last[here] // self._tokens, minlength=size) > 0)
        for kind, after, parents, steps in observed.parts:
            weighted = Steps(steps.last, steps.last_after, steps.bins, times[parents])
            self._seen.setdefault(kind, {}).setdefault(after, []).append(weighted)

    def settle(self) -> None:
        """Recompute the expected numbers from all records so far; later records have no effect until the next call."""
        self._expected, self._is_settled = {}, True
        for kind in sorted(self._nodes):
            joined = {after: Steps.joined(steps) for after, steps in self._seen.get(kind, {}).items()}
            seen = {after: in_order(steps[steps.weights > 0]) for after, steps in joined.items()}
            self._seen[kind] = {after: [steps] for after, steps in seen.items()}
            self._expected[kind] = self._combined(kind, seen)

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
            mass[rows] += interpolated(self._below(kind), pools[here], left[rows])
        return mass

    def _below(self, kind: int) -> FloatArray:
        """Return the expected number of completions after nodes of a kind, by pool and cost, ``[pools, BINS]``.

        For a kind without records, use the nearest kind that has fewer tokens to come.
        """
        known = [shorter for shorter in self._expected if shorter <= kind]
        return self._expected[max(known)] if known else np.ones((self._pools, BINS))

    def _combined(self, kind: int, seen: Mapping[int, Steps]) -> FloatArray:
        """Return the expected number of completions of one kind, from its records and the kinds with fewer tokens to
        come."""
        parts = [
            ends_of(steps, self._pools) if after == END else completions_of(steps, self._below(after))
            for after, steps in sorted(seen.items())
        ]
        completions = sum(parts[1:], parts[0]) if parts else np.zeros((self._pools, BINS))
        by_tree, nodes = completions.reshape(-1, self._tokens, BINS), self._nodes[kind].reshape(-1, self._tokens)
        pooled = by_tree.sum(axis=1) / np.maximum(nodes.sum(axis=1), 1e-300)[:, None]
        by_tree += PRIOR * pooled[:, None]
        by_tree *= 1 / (nodes + PRIOR)[:, :, None]
        if not self._known[kind].all():
            unknown = ~self._known[kind]
            by_tree[unknown] = self._below(kind).reshape(by_tree.shape)[unknown]
        return completions
