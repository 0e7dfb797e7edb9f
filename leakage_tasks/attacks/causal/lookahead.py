"""Prediction of the number of completions of a partial filling that stay below a cost.

If draws chose each child in proportion to the true number of cheap completions below it, all draws would have equal
weight. That number is unknown, but nodes that were read give samples of the costs. Next-token costs are pooled by the
remaining length and by the last token, as if they depended on nothing else, and combined from the end by dynamic
programming. If the costs of a model follow this assumption, estimates from such draws have almost no variance;
otherwise the variance grows with the dependence on earlier tokens. Estimates are unbiased in any case, because the true
probability of each draw is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from leakage_tasks.attacks.causal.random_descents import shares
from leakage_tasks.attacks.causal.search_tree import ArrayRecord, Children, Nodes, SearchTree
from leakage_tasks.core.arrays import FloatArray, IntArray

BINS = 256
"""Number of bins for costs from 0 to the bound."""
LARGEST_ALPHABET = 32
"""For larger alphabets, costs are not pooled by last token, because each pool would have too few nodes."""
PRIOR = 2.0
"""Weight, in nodes, of the mean over all last tokens in the estimate for one last token."""
END = -1
"""The kind of a child that completes a filling."""


class Visited(Protocol):
    """Nodes that were read, and the row of the node of each draw that is there."""

    @property
    def nodes(self) -> Nodes:
        """The nodes."""
        ...

    @property
    def at(self) -> IntArray:
        """Rows of ``nodes``, one for each draw."""
        ...


@dataclass(frozen=True)
class Steps(ArrayRecord):
    """Observed costs of m children of visited nodes, with kinds, last tokens and weights; all fields have shape
    ``[m]``.

    ``kinds`` and ``last`` belong to the parent, ``kinds_after`` and ``last_after`` to the child.
    """

    kinds: IntArray
    last: IntArray
    kinds_after: IntArray
    last_after: IntArray
    costs: FloatArray
    weights: FloatArray


class Lookahead:
    """A proposal that chooses a child in proportion to the expected number of cheap completions below it.

    A completion is cheap if it costs no more than the bound. Nodes are of one kind if the same number of tokens may
    follow them (``Paths.to_come``). Expected numbers are continuous in the observed costs, so that the last digits of a
    cost change no draw.
    """

    def __init__(self, explorer: SearchTree, bound: float) -> None:
        self._explorer = explorer
        self._step = max(bound, 1e-6) / (BINS - 1)
        columns = len(explorer.paths.columns)
        self._tokens = columns if columns <= LARGEST_ALPHABET else 1
        self._seen: list[Steps] = []
        self._nodes: dict[int, FloatArray] = {}
        self._expected: dict[int, FloatArray] = {}

    def learn_from(self, visit: Visited) -> None:
        """Record the costs of the children of visited nodes, weighted by the number of descents through each node."""
        nodes, times = visit.nodes, np.bincount(visit.at, minlength=len(visit.nodes)).astype(np.float64)
        paths, children = self._explorer.paths, self._explorer.children(nodes)
        kinds, last = paths.to_come(nodes.states), self._last(nodes)
        for kind in np.unique(kinds):
            counts = self._nodes.setdefault(int(kind), np.zeros(self._tokens))
            counts += np.bincount(last[kinds == kind], weights=times[kinds == kind], minlength=self._tokens)
        above, after = children.parents, paths.to_come(children.states)
        costs = children.costs - nodes.costs[above]
        steps = Steps(kinds[above], last[above], after, self._group(children), costs, times[above])
        near = costs < self._step * BINS
        ends = replace(steps, kinds_after=np.full_like(after, END))
        self._seen.append(ends[near & paths.ends(children.states)])
        self._seen.append(steps[near & paths.goes_on(children.states)])

    def settle(self) -> None:
        """Recompute the expected numbers from all records so far; later records have no effect until the next call."""
        seen = Steps.joined(self._seen)
        self._expected = {}
        for kind in sorted(self._nodes):
            self._expected[kind] = self._combined(seen[seen.kinds == kind], self._nodes[kind])

    def _group(self, children: Children) -> IntArray:
        return children.columns if self._tokens > 1 else np.zeros(len(children), dtype=np.int64)

    def _last(self, nodes: Nodes) -> IntArray:
        if self._tokens == 1 or not nodes.paths.shape[1]:
            return np.zeros(len(nodes), dtype=np.int64)
        return self._explorer.columns_of(nodes.paths[:, -1])

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """Return the proposal's probabilities of the children.

        Args:
            explorer: The search tree.
            nodes: n nodes.
            children: Their m children, all up to ``bound``.
            bound: Cost of the secret in bits.

        Returns:
            Each child's share of the expected cheap completions below its node, ``[m]``.
        """
        mass = self.expected(children, bound)
        total = np.bincount(children.parents, weights=mass, minlength=len(nodes))[children.parents]
        return shares(np.where(total > 0, mass, 1.0), children.parents, len(nodes))

    def expected(self, children: Children, bound: float) -> FloatArray:
        """Return the expected number of fillings below each child that cost no more than ``bound``, ``[m]``."""
        paths = self._explorer.paths
        left = np.maximum(bound - children.costs, 0.0) / self._step
        mass: FloatArray = paths.ends(children.states).astype(np.float64)
        onward = np.flatnonzero(paths.goes_on(children.states))
        kinds, last = paths.to_come(children.states[onward]), self._group(children[onward])
        for kind in np.unique(kinds):
            rows = kinds == kind
            mass[onward[rows]] += _interpolated(self._below(int(kind)), last[rows], left[onward[rows]])
        return mass

    def _below(self, kind: int) -> FloatArray:
        """Return the expected number of completions after nodes of a kind, by last token and cost, ``[tokens, BINS]``.

        For a kind without records, use the nearest kind that has fewer tokens to come.
        """
        known = [shorter for shorter in self._expected if shorter <= kind]
        return self._expected[max(known)] if known else np.ones((self._tokens, BINS))

    def _combined(self, seen: Steps, nodes: FloatArray) -> FloatArray:
        """Return the expected number of completions of one kind, from its records and the kinds with fewer tokens to
        come."""
        completions = np.zeros((self._tokens, BINS))
        for kind in np.unique(seen.kinds_after):
            after = np.ones((self._tokens, BINS)) if kind == END else self._below(int(kind))
            spread = self._spread(seen[seen.kinds_after == kind])
            tokens, shifts = np.nonzero(spread.any(axis=0))
            completions += spread[:, tokens, shifts] @ _shifted(after[tokens], shifts)
        pooled = completions.sum(axis=0) / max(nodes.sum(), 1e-300)
        return (completions + PRIOR * pooled) / (nodes + PRIOR)[:, None]

    def _spread(self, seen: Steps) -> FloatArray:
        """Return the children's weights by last token of the parent, own last token and cost bin, ``[tokens, tokens,
        BINS]``.

        A cost between two bins counts partly for each of the two.
        """
        position = seen.costs / self._step
        low = np.minimum(position.astype(np.int64), BINS - 1)
        cell = (seen.last * self._tokens + seen.last_after) * (BINS + 1) + low
        cells = self._tokens**2 * (BINS + 1)
        upper = seen.weights * (position - low)
        spread = np.bincount(cell, weights=seen.weights - upper, minlength=cells).astype(np.float64)
        spread += np.bincount(cell + 1, weights=upper, minlength=cells)[:cells]
        return spread.reshape(self._tokens, self._tokens, BINS + 1)[..., :BINS]


def _shifted(values: FloatArray, shifts: IntArray) -> FloatArray:
    """Shift each row up by its number of bins and fill with zeros, ``[n, BINS]``: adds a cost to a whole row."""
    padded = np.concatenate([np.zeros_like(values), values], axis=1)
    at = (2 * np.arange(len(values)) + 1) * BINS - shifts
    return padded.ravel()[at[:, None] + np.arange(BINS)]


def _interpolated(values: FloatArray, rows: IntArray, positions: FloatArray) -> FloatArray:
    """Interpolate ``values`` ``[n, BINS]`` of some rows linearly at fractional bin positions."""
    low = np.minimum(positions.astype(np.int64), values.shape[1] - 2)
    below = values[rows, low]
    interpolated: FloatArray = below + (values[rows, low + 1] - below) * (positions - low)
    return interpolated
