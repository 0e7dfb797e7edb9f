"""Estimates of the share of fillings that cost no more than a secret, from uniform random fillings in groups.

A node that is read gives the costs of all its children. So a prediction of the share of cheap fillings below each child
is a control variate: at each node of its path, a draw adds the mean prediction of the children, weighted by their
probabilities, and subtracts the prediction for the child that it reads next. The prediction for a child that ends a
text is the true 0 or 1. Both terms have the weight of their node. The estimate is unbiased for any prediction that does
not depend on the draw; an exact prediction leaves no variance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.forest import Forest, SecretMask, in_forest
from leakage_tasks.attacks.causal.lookahead import TOGETHER, Lookahead
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.uniform_draws import (
    GroupDraws,
    GroupRequest,
    GroupVisit,
    read_groups,
)
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray


class GroupShares:
    """One unbiased estimate per group of the share of fillings that cost no more than each bound of its request.

    :meth:`add` takes the visits of :func:`~leakage_tasks.attacks.causal.uniform_draws.read_groups`.
    """

    def __init__(
        self, explorer: SearchTree, draws: GroupDraws, predictions: Sequence[Lookahead], predicted_by: IntArray
    ) -> None:
        """Set up the estimates.

        Args:
            explorer: A search tree, or a forest.
            draws: The draws, with an equal number of bounds in each tree.
            predictions: Predict the numbers of cheap fillings.
            predicted_by: The index of the prediction for each draw, which must not depend on this draw.
        """
        self._explorer, self._draws = explorer, draws
        self._predictions, self._predicted_by = predictions, predicted_by
        self._bounds = np.array([request.bounds for request in draws.requests]).T
        self._secrets = SecretMask([request.secret for request in draws.requests])
        self._size = draws.requests[0].groups.size
        self._shares, self._weights = np.zeros((len(self._bounds), draws.ends[-1])), np.ones(draws.ends[-1])
        self._seen = np.zeros(self._bounds.shape, dtype=np.int64)

    def of_tree(self, tree: int) -> tuple[FloatArray, IntArray]:
        """Return the estimates ``[bounds, number]`` and the numbers of distinct fillings that were reached ``[bounds]``
        in a tree."""
        selected = self._shares[:, self._draws.ends[tree] : self._draws.ends[tree + 1]]
        values: FloatArray = selected.reshape(len(selected), -1, self._size).mean(axis=2)
        return values, self._seen[:, tree]

    def add(self, visit: GroupVisit) -> None:
        """Add the estimates at the nodes of a visit."""
        children, nodes, weights, by = visit.children, len(visit.nodes), self._weights, self._predicted_by
        assert visit.nodes.trees is not None
        trees = visit.nodes.trees[children.parents]
        onward, ending = self._explorer.paths.goes_on(children.states), self._ending(visit, trees)
        before, goers, chosen = weights[visit.who], visit.who[visit.goes], visit.chosen[visit.goes]
        weights[goers] = np.where(visit.is_complete[visit.goes], self._size, weights[goers])
        for shares, seen, limits in zip(self._shares, self._seen, self._bounds, strict=True):
            limit = limits[trees]
            cheap = children.costs <= limit
            inside = ending & cheap
            if inside.any():
                seen += np.bincount(trees[inside], minlength=len(seen))
            expected = np.stack([known.expected(children, limit, trees) for known in self._predictions])
            predicted = np.where(onward, np.where(cheap, np.minimum(expected / visit.fillings, 1.0), 0.0), inside)
            means = np.array([np.bincount(children.parents, row, nodes) for row in visit.chance * predicted])
            shares[visit.who] += before * (visit.weight * means)[by[visit.who], visit.at]
            shares[goers] -= weights[goers] * (visit.weights[chosen] * predicted[by[goers], chosen])

    def _ending(self, visit: GroupVisit, trees: IntArray) -> BoolArray:
        """Return a mask of the children that complete a text other than the secret's."""
        ending: BoolArray = self._explorer.paths.ends(visit.children.states).copy()
        rows = np.flatnonzero(ending)
        if len(rows):
            selected = trees[rows]
            ending[rows] = ~self._secrets.of(self._explorer.child_paths(visit.nodes, visit.children[rows]), selected)
        return ending


@dataclass(frozen=True)
class LearnedDraws:
    """Estimates of draws, ``values`` ``[bounds, number]``, and the ``lookahead`` that learned from all of these draws.

    The lookahead is settled when proposals first use it. ``seen`` ``[bounds]`` is the number of distinct fillings that
    were reached up to each bound, and ``reached_ends`` the number of groups that reached nodes whose next token may
    complete a text.
    """

    values: FloatArray
    seen: IntArray
    lookahead: Lookahead
    reached_ends: int


def learned_draws(explorer: SearchTree, request: GroupRequest, known: Lookahead) -> LearnedDraws:
    """Make an even number of draws, and learn from them.

    Each half is estimated by the prediction of ``known`` and of the other half. Given the other half, each estimate is
    unbiased; estimates of different halves depend on each other in second order only (Chernozhukov et al. 2018).
    """
    form = len(request.bounds), request.steering is None, known.bins
    return in_forest(_learned_draws, explorer, (request, known), request.draws, form)


def _learned_draws(forest: Forest, requests: Sequence[tuple[GroupRequest, Lookahead]]) -> list[LearnedDraws]:
    draws = GroupDraws([request for request, _ in requests])
    visits: list[list[GroupVisit]] = [[] for _ in range(0, len(requests), TOGETHER)]

    def see(visit: GroupVisit) -> None:
        for index, part in draws.parts(visit):
            visits[index].append(dataclasses.replace(part, nodes=part.nodes.without_memory()))

    read_groups(forest, draws, see)
    made: list[LearnedDraws] = []
    for index, some in enumerate(visits):
        made += _learned(forest, requests[index * TOGETHER : (index + 1) * TOGETHER], some)
        some.clear()
    return made


def _learned(
    forest: Forest, requests: Sequence[tuple[GroupRequest, Lookahead]], visits: Sequence[GroupVisit]
) -> list[LearnedDraws]:
    """Return the estimates for some trees of a forest, from visits in these trees."""
    draws, known = GroupDraws([request for request, _ in requests]), [lookahead for _, lookahead in requests]
    size, ends = draws.requests[0].groups.size, draws.ends // draws.requests[0].groups.size
    in_first = np.concatenate([np.arange(request.number) < request.number // 2 for request in draws.requests])
    whole = Lookahead.copied(forest, known)
    halves = [whole.copy() for _ in range(2)]
    reached = np.zeros(ends[-1], dtype=bool)
    for visit in visits:
        observed, groups = whole.observed(visit.nodes, visit.children), visit.who // size
        whole.learn(observed, visit.at)
        for half, selected in zip(halves, (in_first[groups], ~in_first[groups]), strict=True):
            half.learn(observed, visit.at[selected])
        last = np.zeros(len(visit.nodes), dtype=bool)
        last[visit.children.parents[forest.paths.ends(visit.children.states)]] = True
        reached[groups[last[visit.at]]] = True
    for half in halves:
        half.settle()
    shares = GroupShares(forest, draws, halves, np.repeat(in_first.astype(np.int64), size))
    for visit in visits:
        shares.add(visit)
    groups_reached = np.add.reduceat(reached, ends[:-1], dtype=np.int64).tolist()
    return [
        LearnedDraws(*shares.of_tree(tree), lookahead, groups_reached[tree])
        for tree, lookahead in enumerate(whole.split())
    ]
