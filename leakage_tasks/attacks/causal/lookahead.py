"""What is likely to come after a partial filling: how many of its completions stay below a cost.

Draws in proportion to the true number of cheap completions below each child would all have one weight. That number is
not known, but what completions cost can be learnt from nodes already read: next-token costs are pooled by how much is
still to come and by the last token, as if nothing else of what came before mattered, and put together from the end by
dynamic programming. Where the model is such, estimates from draws that go by it have hardly any spread; elsewhere they
have the less, the less costs depend on the rest. They are unbiased all the same, since the true probability of each
draw is known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leakage_tasks.attacks.causal.random_descents import Visit, shares
from leakage_tasks.attacks.causal.search_tree import ArrayRecord, Children, Nodes, SearchTree
from leakage_tasks.core.arrays import FloatArray, IntArray

BINS = 256
"""Steps in which costs up to the bound are told apart."""
TELLING = 32
"""With more different tokens than that the last one is not looked at: too few nodes would be alike."""
PRIOR = 2.0
"""Nodes that what is known of all last tokens counts for, beside those with the same one."""
END = -1
"""The kind of a child that ends a filling."""


@dataclass(frozen=True)
class Steps(ArrayRecord):
    """What m children of visited nodes cost: kinds and last tokens of parent and child, cost, and weight, ``[m]``."""

    kinds: IntArray
    last: IntArray
    kinds_after: IntArray
    last_after: IntArray
    costs: FloatArray
    weights: FloatArray


class Lookahead:
    """A proposal in proportion to how many cheap completions are expected below each child.

    Nodes are of one kind if as much may come after them (``Paths.to_come``). What is expected changes continuously
    with the costs it was learnt from, so that their last digits change no draw.
    """

    def __init__(self, explorer: SearchTree, bound: float) -> None:
        self._explorer = explorer
        self._step = max(bound, 1e-6) / (BINS - 1)
        columns = len(explorer.paths.columns)
        self._tokens = columns if columns <= TELLING else 1
        self._seen: list[Steps] = []
        self._nodes: dict[int, FloatArray] = {}
        self._expected: dict[int, FloatArray] = {}

    def learn_from(self, visit: Visit) -> None:
        """Take note of what the children of visited nodes cost, a node as often as descents came to it."""
        nodes, times = visit.nodes, np.bincount(visit.at, minlength=len(visit.nodes)).astype(np.float64)
        paths, children = self._explorer.paths, self._explorer.children(nodes)
        kinds, last = paths.to_come(nodes.states), self._last(nodes)
        for kind in np.unique(kinds):
            counts = self._nodes.setdefault(int(kind), np.zeros(self._tokens))
            counts += np.bincount(last[kinds == kind], weights=times[kinds == kind], minlength=self._tokens)
        above, after = children.parents, paths.to_come(children.states)
        costs = children.costs - nodes.costs[above]
        own = Steps(kinds[above], last[above], after, self._group(children), costs, times[above])
        near = costs < self._step * BINS
        ends = replace(own, kinds_after=np.full_like(after, END))
        self._seen.append(ends[near & paths.ends(children.states)])
        self._seen.append(own[near & paths.goes_on(children.states)])

    def settle(self) -> None:
        """Go by all that was learnt so far; what is learnt later changes nothing until the next call."""
        seen = Steps.joined(self._seen)
        self._expected = {}
        for kind in sorted(self._nodes):
            self._expected[kind] = self._put_together(seen[seen.kinds == kind], self._nodes[kind])

    def _group(self, children: Children) -> IntArray:
        return children.columns if self._tokens > 1 else np.zeros(len(children), dtype=np.int64)

    def _last(self, nodes: Nodes) -> IntArray:
        if self._tokens == 1 or not nodes.paths.shape[1]:
            return np.zeros(len(nodes), dtype=np.int64)
        return self._explorer.columns_of(nodes.paths[:, -1])

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """See :class:`~leakage_tasks.attacks.causal.random_descents.Proposal`."""
        mass = self.expected(children, bound)
        total = np.bincount(children.parents, weights=mass, minlength=len(nodes))[children.parents]
        return shares(np.where(total > 0, mass, 1.0), children.parents, len(nodes))

    def expected(self, children: Children, bound: float) -> FloatArray:
        """How many fillings below each child are expected to cost no more than ``bound``, ``[m]``."""
        paths = self._explorer.paths
        left = np.maximum(bound - children.costs, 0.0) / self._step
        mass: FloatArray = paths.ends(children.states).astype(np.float64)
        onward = np.flatnonzero(paths.goes_on(children.states))
        kinds, last = paths.to_come(children.states[onward]), self._group(children[onward])
        for kind in np.unique(kinds):
            rows = kinds == kind
            mass[onward[rows]] += _between(self._below(int(kind)), last[rows], left[onward[rows]])
        return mass

    def _below(self, kind: int) -> FloatArray:
        """Completions expected after nodes of a kind, by last token, at each cost or less, ``[tokens, BINS]``.

        Of a kind that was never met those of the nearest one with less to come.
        """
        known = [each for each in self._expected if each <= kind]
        return self._expected[max(known)] if known else np.ones((self._tokens, BINS))

    def _put_together(self, seen: Steps, nodes: FloatArray) -> FloatArray:
        """The same from what was seen of the kind and what is expected of those with less to come."""
        found = np.zeros((self._tokens, BINS))
        for kind in np.unique(seen.kinds_after):
            after = np.ones((self._tokens, BINS)) if kind == END else self._below(int(kind))
            spread = self._spread(seen[seen.kinds_after == kind])
            tokens, places = np.nonzero(spread.any(axis=0))
            found += spread[:, tokens, places] @ _moved(after[tokens], places)
        everyones = found.sum(axis=0) / max(nodes.sum(), 1e-300)
        return (found + PRIOR * everyones) / (nodes + PRIOR)[:, None]

    def _spread(self, seen: Steps) -> FloatArray:
        """Weights of children by the parent's last token, their own and cost, ``[tokens, tokens, BINS]``.

        A cost between two steps counts in parts for both.
        """
        place = seen.costs / self._step
        low = np.minimum(place.astype(np.int64), BINS - 1)
        cell = (seen.last * self._tokens + seen.last_after) * (BINS + 1) + low
        cells = self._tokens**2 * (BINS + 1)
        upper = seen.weights * (place - low)
        spread = np.bincount(cell, weights=seen.weights - upper, minlength=cells).astype(np.float64)
        spread += np.bincount(cell + 1, weights=upper, minlength=cells)[:cells]
        return spread.reshape(self._tokens, self._tokens, BINS + 1)[..., :BINS]


def _moved(values: FloatArray, places: IntArray) -> FloatArray:
    """Rows moved up by so many places, zeros following from below, ``[n, BINS]``: adds a cost to all of a row's."""
    padded = np.concatenate([np.zeros_like(values), values], axis=1)
    at = (2 * np.arange(len(values)) + 1) * BINS - places
    return padded.ravel()[at[:, None] + np.arange(BINS)]


def _between(values: FloatArray, rows: IntArray, places: FloatArray) -> FloatArray:
    """``values`` ``[n, BINS]`` of some rows at places from 0 to the last, those between two by both."""
    low = np.minimum(places.astype(np.int64), values.shape[1] - 2)
    below = values[rows, low]
    found: FloatArray = below + (values[rows, low + 1] - below) * (places - low)
    return found
