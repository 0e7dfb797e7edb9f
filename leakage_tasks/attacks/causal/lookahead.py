"""Prediction of the number of completions of a partial filling that stay below a cost.

If draws chose each child in proportion to the true number of cheap completions below it, all draws would have equal
weight. That number is unknown, but nodes that were read give samples of the costs. Next-token costs are pooled by the
remaining length and by the last token, as if they depended on nothing else, and combined from the end by dynamic
programming. If the costs of a model follow this assumption, estimates from such draws have almost no variance;
otherwise the variance grows with the dependence on earlier tokens. Estimates are unbiased in any case, because the true
probability of each draw is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from leakage_tasks.attacks.causal.random_descents import shares
from leakage_tasks.attacks.causal.search_tree import ArrayRecord, Children, Nodes, SearchTree
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

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
    """Observed costs of m children of visited nodes, with last tokens and weights; all fields have shape ``[m]``.

    ``last`` belongs to the parent, ``last_after`` to the child.
    """

    last: IntArray
    last_after: IntArray
    costs: FloatArray
    weights: FloatArray


class ObservedSteps(NamedTuple):
    """Steps without weights from nodes of one ``kind`` to children of one kind ``after``, with the parents' rows."""

    kind: int
    after: int
    parents: IntArray
    steps: Steps


@dataclass(frozen=True)
class Observed:
    """Last tokens of n nodes, the rows of the nodes of each kind, and the steps to their children."""

    last: IntArray
    kinds: Sequence[tuple[int, BoolArray | slice]]
    parts: Sequence[ObservedSteps]


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
        self._seen: dict[int, dict[int, list[Steps]]] = {}
        """Steps by the kinds of parent and child."""
        self._nodes: dict[int, FloatArray] = {}
        self._expected: dict[int, FloatArray] = {}

    def learn_from(self, visit: Visited) -> None:
        """Record the costs of the children of visited nodes, weighted by the number of descents through each node."""
        self.learn(self.observed(visit.nodes, self._explorer.children(visit.nodes)), visit.at)

    def observed(self, nodes: Nodes, children: Children) -> Observed:
        """Return a record of nodes with all of their children, for this lookahead and others up to the same bound."""
        paths = self._explorer.paths
        kinds, last = paths.to_come(nodes.states), self._last(nodes)
        near = children.costs - nodes.costs[children.parents] < self._step * BINS
        ends, onward = (near & which(children.states) for which in (paths.ends, paths.goes_on))
        by_kind = list(_by_value(kinds))
        parts = []
        for chosen, is_end in ((ends, True), (onward, False)):
            rows = np.flatnonzero(chosen)
            after = np.full(len(rows), END) if is_end else paths.to_come(children.states[rows])
            for kind, here in _by_value(kinds[children.parents[rows]]):
                for kind_after, there in _by_value(after[here]):
                    chosen_rows = rows[here][there]
                    above, zero = children.parents[chosen_rows], np.zeros(len(chosen_rows))
                    costs = children.costs[chosen_rows] - nodes.costs[above]
                    steps = Steps(last[above], self._group(children.columns[chosen_rows]), costs, zero)
                    parts.append(ObservedSteps(kind, kind_after, above, steps))
        return Observed(last, by_kind, parts)

    def learn(self, observed: Observed, at: IntArray) -> None:
        """Record the costs of observed nodes, weighted by the number of times that a node's row is in ``at``."""
        last = observed.last
        times = np.bincount(at, minlength=len(last)).astype(np.float64)
        for kind, here in observed.kinds:
            counts = self._nodes.setdefault(kind, np.zeros(self._tokens))
            counts += np.bincount(last[here], weights=times[here], minlength=self._tokens)
        for kind, after, parents, steps in observed.parts:
            weighted = Steps(steps.last, steps.last_after, steps.costs, times[parents])
            self._seen.setdefault(kind, {}).setdefault(after, []).append(weighted)

    def settle(self) -> None:
        """Recompute the expected numbers from all records so far; later records have no effect until the next call."""
        self._expected = {}
        for kind in sorted(self._nodes):
            seen = {after: Steps.joined(steps) for after, steps in self._seen.get(kind, {}).items()}
            self._seen[kind] = {after: [steps] for after, steps in seen.items()}
            self._expected[kind] = self._combined(seen, self._nodes[kind])

    def _group(self, columns: IntArray) -> IntArray:
        return columns if self._tokens > 1 else np.zeros(len(columns), dtype=np.int64)

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
        kinds, last = paths.to_come(children.states[onward]), self._group(children.columns[onward])
        for kind, here in _by_value(kinds):
            rows = onward[here]
            mass[rows] += _interpolated(self._below(kind), last[here], left[rows])
        return mass

    def _below(self, kind: int) -> FloatArray:
        """Return the expected number of completions after nodes of a kind, by last token and cost, ``[tokens, BINS]``.

        For a kind without records, use the nearest kind that has fewer tokens to come.
        """
        known = [shorter for shorter in self._expected if shorter <= kind]
        return self._expected[max(known)] if known else np.ones((self._tokens, BINS))

    def _combined(self, seen: Mapping[int, Steps], nodes: FloatArray) -> FloatArray:
        """Return the expected number of completions of one kind, from its records and the kinds with fewer tokens to
        come."""
        completions = np.zeros((self._tokens, BINS))
        for kind, steps in sorted(seen.items()):
            below = np.ones((self._tokens, BINS)) if kind == END else self._below(kind)
            completions += self._completions(steps[steps.weights > 0], below)
        pooled = completions.sum(axis=0) / max(nodes.sum(), 1e-300)
        return (completions + PRIOR * pooled) / (nodes + PRIOR)[:, None]

    def _completions(self, steps: Steps, below: FloatArray) -> FloatArray:
        """Return the number of completions through ``steps``, by last token of the parent and cost, ``[tokens, BINS]``.

        ``below`` are the numbers after a child, by its last token. A cost between two bins counts partly for each of
        the two.
        """
        position = steps.costs / self._step
        low = np.minimum(position.astype(np.int64), BINS - 1)
        upper, each = steps.weights * (position - low), np.arange(len(steps))
        spread = np.zeros((2, self._tokens, len(steps)))
        spread[0, steps.last, each], spread[1, steps.last, each] = steps.weights - upper, upper
        shifted = spread.reshape(2 * self._tokens, len(steps)) @ _shifted(below, steps.last_after, low)
        made: FloatArray = shifted[: self._tokens, 1:] + shifted[self._tokens :, :-1]
        return made


def _by_value(values: IntArray) -> Iterator[tuple[int, BoolArray | slice]]:
    """Yield each distinct value with the elements that have it: a mask, or a slice of all if there is only one."""
    if len(values) and (values == values[0]).all():
        yield int(values[0]), slice(None)
        return
    for value in np.unique(values).tolist():
        yield value, values == value


def _shifted(values: FloatArray, rows: IntArray, shifts: IntArray) -> FloatArray:
    """Return some ``rows`` of ``values`` ``[n, BINS]``, each shifted up by its number of bins and filled with zeros.

    A shift adds a cost to a whole row. The result ``[rows, 1 + BINS]`` begins with the bin below the first one.
    """
    padded = np.concatenate([np.zeros_like(values), values], axis=1)
    # NumPy's functions for windows take longer than the selection.
    windows = np.ndarray((len(values), BINS, BINS + 1), padded.dtype, padded, 0, (*padded.strides, padded.itemsize))
    shifted: FloatArray = windows[rows, BINS - 1 - shifts]
    return shifted


def _interpolated(values: FloatArray, rows: IntArray, positions: FloatArray) -> FloatArray:
    """Interpolate ``values`` ``[n, BINS]`` of some rows linearly at fractional bin positions."""
    low = np.minimum(positions.astype(np.int64), values.shape[1] - 2)
    below = values[rows, low]
    interpolated: FloatArray = below + (values[rows, low + 1] - below) * (positions - low)
    return interpolated
