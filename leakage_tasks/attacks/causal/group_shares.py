"""Estimates of the share of fillings that cost no more than a secret, from uniform random fillings in groups.

A node that is read gives the costs of all its children. So a prediction of the share of cheap fillings below each child
is a control variate: at each node of its path, a draw adds the mean prediction of the children, weighted by their
probabilities, and subtracts the prediction for the child that it reads next. The prediction for a child that ends a
text is the true 0 or 1. The estimate is unbiased for any prediction that does not depend on the draw; an exact
prediction leaves no variance.
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

    def __init__(self, explorer: SearchTree, draws: GroupDraws, prediction: Lookahead) -> None:
        """Set up the estimates.

        Args:
            explorer: A search tree, or a forest.
            draws: The draws, with an equal number of bounds in each tree.
            prediction: Predicts the numbers of cheap fillings; it must not depend on these draws.
        """
        self._explorer, self._draws, self._prediction = explorer, draws, prediction
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
        children, nodes, weights = visit.children, len(visit.nodes), self._weights
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
            share = self._prediction.expected(children, limit, trees) / visit.fillings
            predicted = np.where(onward, np.where(cheap, np.minimum(share, 1.0), 0.0), inside)
            means = np.bincount(children.parents, weights=visit.chance * predicted, minlength=nodes)
            shares[visit.who] += before * means[visit.at]
            shares[goers] -= weights[goers] * predicted[chosen]

    def _ending(self, visit: GroupVisit, trees: IntArray) -> BoolArray:
        """Return a mask of the children that complete a text other than the secret's."""
        ending: BoolArray = self._explorer.paths.ends(visit.children.states).copy()
        rows = np.flatnonzero(ending)
        if len(rows):
            selected = trees[rows]
            ending[rows] = ~self._secrets.of(self._explorer.child_paths(visit.nodes, visit.children[rows]), selected)
        return ending


@dataclass(frozen=True)
class FirstDraws:
    """The estimates of draws that decide, ``values`` ``[number]``, and the ``lookahead`` that learned from them.

    ``reached_ends`` is the number of groups that reached nodes whose next token may complete a text.
    """

    values: FloatArray
    lookahead: Lookahead
    reached_ends: int


def first_draws(explorer: SearchTree, request: GroupRequest) -> FirstDraws:
    """Make an even number of draws, and learn from them. Each half is estimated by a prediction of the other half."""
    return in_forest(_first_draws, explorer, request, request.draws, request.number)


def _first_draws(forest: Forest, requests: Sequence[GroupRequest]) -> list[FirstDraws]:
    draws = GroupDraws(requests)
    visits: list[list[GroupVisit]] = [[] for _ in range(0, len(requests), TOGETHER)]

    def see(visit: GroupVisit) -> None:
        for index, part in draws.parts(visit):
            visits[index].append(dataclasses.replace(part, nodes=part.nodes.without_memory()))

    read_groups(forest, draws, see)
    made: list[FirstDraws] = []
    for index, some in enumerate(visits):
        selected = requests[index * TOGETHER : (index + 1) * TOGETHER]
        made += _learned(
            forest, [dataclasses.replace(request, bounds=request.bounds[:1]) for request in selected], some
        )
        some.clear()
    return made


def _learned(forest: Forest, requests: Sequence[GroupRequest], visits: Sequence[GroupVisit]) -> list[FirstDraws]:
    """Return the estimates for some trees of a forest, from visits in these trees."""
    draws, size, number = GroupDraws(requests), requests[0].groups.size, requests[0].number
    bounds = np.array([request.bounds[0] for request in requests])
    whole, *halves = (Lookahead(forest, bounds) for _ in range(3))
    reached = np.zeros(len(draws.trees) // size, dtype=bool)
    for visit in visits:
        observed, groups = whole.observed(visit.nodes, visit.children), visit.who // size
        whole.learn(observed, visit.at)
        for half, selected in zip(halves, (groups % number < number // 2, groups % number >= number // 2), strict=True):
            half.learn(observed, visit.at[selected])
        last = np.zeros(len(visit.nodes), dtype=bool)
        last[visit.children.parents[forest.paths.ends(visit.children.states)]] = True
        reached[groups[last[visit.at]]] = True
    estimates = [GroupShares(forest, draws, half) for half in halves]
    for lookahead in (whole, *halves):
        lookahead.settle()
    for visit in visits:
        for shares in estimates:
            shares.add(visit)
    made = []
    for tree, lookahead in enumerate(whole.split()):
        (by_first, by_second) = (shares.of_tree(tree)[0][0] for shares in estimates)
        values = np.concatenate([by_second[: number // 2], by_first[number // 2 :]])
        made.append(FirstDraws(values, lookahead, int(reached[tree * number : (tree + 1) * number].sum())))
    return made


def estimated_shares(explorer: SearchTree, request: GroupRequest, prediction: Lookahead) -> tuple[FloatArray, IntArray]:
    """Make draws whose estimates use the ``prediction`` of other draws.

    Returns:
        The estimates ``[bounds, number]``, and the number of distinct fillings that were reached up to each bound
        ``[bounds]``.
    """
    return in_forest(_estimated_shares, explorer, (request, prediction), request.draws, len(request.bounds))


def _estimated_shares(
    forest: Forest, requests: Sequence[tuple[GroupRequest, Lookahead]]
) -> list[tuple[FloatArray, IntArray]]:
    draws = GroupDraws([request for request, _ in requests])
    some = [requests[first : first + TOGETHER] for first in range(0, len(requests), TOGETHER)]
    estimates = [
        GroupShares(
            forest, GroupDraws([request for request, _ in part]), Lookahead.joined(forest, [known for _, known in part])
        )
        for part in some
    ]

    def see(visit: GroupVisit) -> None:
        for index, part in draws.parts(visit):
            estimates[index].add(part)

    read_groups(forest, draws, see)
    return [shares.of_tree(tree) for part, shares in zip(some, estimates, strict=True) for tree in range(len(part))]
