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
        for number, (shares, seen, limits) in enumerate(zip(self._shares, self._seen, self._bounds, strict=True)):
            limit = limits[trees]
            cheap = children.costs <= limit
            inside = ending & cheap
            if inside.any():
                seen += np.bincount(trees[inside], minlength=len(seen))
            if number == 0 and visit.expected is not None:
                expected = [visit.expected]
            else:
                expected = [known.expected(children, limit, trees) for known in self._predictions]
            likely = np.where(cheap, np.minimum(np.stack(expected) / visit.fillings, 1.0), 0.0)
            values = np.where(onward, likely, inside)
            means = np.array([np.bincount(children.parents, row, nodes) for row in visit.chance * values])
            shares[visit.who] += before * (visit.weight * means)[by[visit.who], visit.at]
            shares[goers] -= weights[goers] * (visit.weights[chosen] * values[by[goers], chosen])

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
    """Estimates of draws in one tree, ``values`` ``[bounds, number]``.

    ``seen`` ``[bounds]`` is the number of distinct fillings that were reached up to each bound, and ``reached_ends``
    the number of groups that reached nodes whose next token may complete a text. ``learned`` is a lookahead of several
    trees, ``tree`` the index of this one.
    """

    values: FloatArray
    seen: IntArray
    reached_ends: int
    learned: Lookahead
    tree: int

    def lookahead(self) -> Lookahead:
        """Return a lookahead that has learned from earlier draws and from these; its predictions are computed at its
        first use."""
        return self.learned.of_tree(self.tree)


def learned_draws(explorer: SearchTree, request: GroupRequest) -> LearnedDraws:
    """Make an even number of draws, and learn from them.

    Steered draws are predicted from earlier draws. Of other draws, each half is predicted from earlier draws and the
    other half. Given the other half, each estimate is unbiased; estimates of different halves depend on each other in
    second order only (Chernozhukov et al. 2018).
    """
    form = len(request.bounds), request.is_steered, request.known.bins
    return in_forest(_learned_draws, explorer, request, request.draws, form)


def _learned_draws(forest: Forest, requests: Sequence[GroupRequest]) -> list[LearnedDraws]:
    draws, shares, steering = GroupDraws(requests), None, None
    if requests[0].is_steered:
        steering = Lookahead.joined(forest, [request.known for request in requests])
        shares = GroupShares(forest, draws, [steering], np.zeros(draws.ends[-1], dtype=np.int64))
    learners = [_Learner(forest, requests[first : first + TOGETHER]) for first in range(0, len(requests), TOGETHER)]

    def see(visit: GroupVisit) -> None:
        if shares is not None:
            shares.add(visit)
        for index, part in draws.parts(visit):
            learners[index].see(part)

    read_groups(forest, draws, see, steering)
    made: list[LearnedDraws] = []
    for learner in learners:
        estimates, first = (learner.shares(), 0) if shares is None else (shares, len(made))
        made += [
            LearnedDraws(*estimates.of_tree(first + tree), reached, learner.learned, tree)
            for tree, reached in enumerate(learner.reached_ends)
        ]
    return made


class _Learner:
    """Learns from the draws of some trees of a forest: from all and, if they are not steered, from each half."""

    def __init__(self, forest: Forest, requests: Sequence[GroupRequest]) -> None:
        self._forest, self._draws = forest, GroupDraws(requests)
        self._size = requests[0].groups.size
        self._ends = self._draws.ends // self._size
        self._in_first = np.concatenate([np.arange(request.number) < request.number // 2 for request in requests])
        self._reached = np.zeros(self._ends[-1], dtype=bool)
        self.learned = Lookahead.copied(forest, [request.known for request in requests])
        self._halves = [] if requests[0].is_steered else [self.learned.copy() for _ in range(2)]
        self._visits: list[GroupVisit] = []

    def see(self, visit: GroupVisit) -> None:
        """Learn from the nodes of a visit."""
        observed, groups = self.learned.observed(visit.nodes, visit.children), visit.who // self._size
        self.learned.learn(observed, visit.at)
        if self._halves:
            in_first = self._in_first[groups]
            for half, selected in zip(self._halves, (in_first, ~in_first), strict=True):
                half.learn(observed, visit.at[selected])
            self._visits.append(dataclasses.replace(visit, nodes=visit.nodes.without_memory()))
        last = np.zeros(len(visit.nodes), dtype=bool)
        last[visit.children.parents[self._forest.paths.ends(visit.children.states)]] = True
        self._reached[groups[last[visit.at]]] = True

    def shares(self) -> GroupShares:
        """Return the estimates, each half predicted from the other, and drop the visits."""
        for half in self._halves:
            half.settle()
        predicted_by = np.repeat(self._in_first.astype(np.int64), self._size)
        shares = GroupShares(self._forest, self._draws, self._halves, predicted_by)
        for visit in self._visits:
            shares.add(visit)
        self._visits.clear()
        return shares

    @property
    def reached_ends(self) -> list[int]:
        """The number of groups in each tree that reached nodes whose next token may complete a text."""
        reached: list[int] = np.add.reduceat(self._reached, self._ends[:-1], dtype=np.int64).tolist()
        return reached
