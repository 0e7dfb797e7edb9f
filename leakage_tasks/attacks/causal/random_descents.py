"""Random descents of the tree of partial fillings, all at once.

All descents at one node are one row of a batch. The child that a descent chooses depends only on the seed, the number
of the descent and its depth. So batching and other descents do not change it, and the first 10 of 100 descents are the
10 descents of a smaller call. The probabilities of the children are those of a mixture of
:mod:`~leakage_tasks.attacks.causal.proposals`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from leakage_tasks.attacks.causal.forest import Forest, in_forest
from leakage_tasks.attacks.causal.nodes import NO_COSTS, Children, Nodes
from leakage_tasks.attacks.causal.proposals import MODEL_ALONE, Power, ProposalMixture, above_lowest, shares
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.streams import UniformNumbers
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Visit:
    """A batch of nodes that were read, and the descents at these nodes.

    Descent ``who[i]`` is at row ``at[i]`` of ``nodes``. ``log2_q`` ``[nodes, K]`` is log2 of the probability of
    reaching a node by each of K proposals, and ``chance`` ``[children, K]`` is the probability of each child given its
    node. ``taken`` are the children that some descent chose, and ``rows`` are their rows in ``children``. Descent
    ``goers[i]`` chose row ``taken_row[i]`` of ``taken``. ``whole[i]`` is true if descent ``goers[i]`` follows a random
    filling that this child completes. Descents are numbered from 0 within the call.
    """

    nodes: Nodes
    children: Children
    chance: FloatArray
    log2_q: FloatArray
    at: IntArray
    who: IntArray
    taken: Children
    rows: IntArray
    goers: IntArray
    taken_row: IntArray
    whole: BoolArray


@dataclass(frozen=True)
class DescentRequest:
    """A request for the descents with some ``numbers`` in one tree, with the arguments of :func:`descend`."""

    numbers: range
    seed: str
    bound: float
    mixture: ProposalMixture

    @cached_property
    def proposals(self) -> IntArray:
        """Number of each descent's proposal, ``[n]``."""
        return self.mixture.of(self.numbers)

    def random_paths(self, explorer: SearchTree) -> tuple[IntArray, IntArray]:
        """Return the columns of the random filling's path of each descent ``[n, longest]``, and the lengths ``[n]``.

        The stream's fillings for earlier descents are skipped. Descents without a random filling have length 0.
        """
        random, lengths = self.mixture.uniform, np.zeros(len(self.numbers), dtype=np.int64)
        earlier = int((self.mixture.of(range(self.numbers.start)) == random).sum())
        rows = np.flatnonzero(self.proposals == random)
        fillings = explorer.space.sample(earlier + len(rows), self.seed)[earlier:] if len(rows) else []
        paths = explorer.paths.each_path(fillings) if fillings else []
        lengths[rows] = [len(path) for path in paths]
        columns = np.zeros((len(lengths), max(1, int(lengths.max(initial=0)))), dtype=np.int64)
        if len(rows):
            filled = np.arange(columns.shape[1]) < lengths[:, None]
            columns[filled] = explorer.columns_of([token for path in paths for token in path])
        return columns, lengths


def descend(
    explorer: SearchTree,
    numbers: range,
    seed: str,
    see: Callable[[Visit], object],
    *,
    bound: float = np.inf,
    mixture: ProposalMixture = MODEL_ALONE,
) -> None:
    """Visit the nodes that the descents with these ``numbers`` reach, in batches, starting at the root.

    A descent ends when no token may follow. A descent that follows a random filling also ends when that costs more than
    ``bound``.

    Args:
        explorer: The search tree.
        numbers: Numbers of the descents, which decide on their proposals and random numbers.
        seed: Seed of the random numbers.
        see: Called with each batch of nodes, their children and the choices of the descents there.
        bound: Largest cost in bits of the children to choose from.
        mixture: The proposals.
    """
    request = DescentRequest(numbers, seed, bound, mixture), see
    in_forest(_descend, explorer, request, len(numbers), mixture.form)


def _descend(forest: Forest, requests: Sequence[tuple[DescentRequest, Callable[[Visit], object]]]) -> Sequence[None]:
    """Make the descents of each request, and pass the part of each visit that is in its tree to its function."""
    draws = Draws(forest, [request for request, _ in requests])

    def see(visit: Visit) -> None:
        for index, part in draws.visits_of_trees(forest, visit):
            requests[index][1](part)

    descend_together(forest, draws, see)
    return [None] * len(requests)


def descend_together(forest: Forest, draws: Draws, see: Callable[[Visit], object]) -> None:
    """Make descents in each tree of a forest, by mixtures of one form.

    Args:
        forest: The trees.
        draws: The descents.
        see: Called with each batch of nodes of all trees, with the descents numbered as in ``draws``.
    """
    proposals = _joined_proposals(forest, draws.requests)
    stack: list[tuple[Nodes, Children, FloatArray, IntArray, IntArray]] = []
    nodes, log2_q = forest.root, np.zeros((len(forest), len(proposals)))
    at, who = draws.trees, np.arange(len(draws.trees))
    while True:
        assert nodes.trees is not None
        children = forest.children(nodes, draws.bounds[nodes.trees][:, None])
        chance = _chances(forest, proposals, nodes, children, draws.bounds)
        chosen = draws.choose(nodes, children, chance, at, who)
        goers = who[chosen >= 0]
        used, taken_row = distinct_rows(chosen[chosen >= 0], len(children))
        with np.errstate(divide="ignore"):
            taken, reached = children[used], log2_q[children.parents[used]] + np.log2(chance[used])
        whole = draws.whole(goers, nodes.paths.shape[1])
        see(Visit(nodes, children, chance, log2_q, at, who, taken, used, goers, taken_row, whole))
        nodes.following = NO_COSTS
        continues = forest.paths.goes_on(taken.states)
        going_on = continues[taken_row]
        taken, reached, taken_row, goers = (
            taken[continues],
            reached[continues],
            (np.cumsum(continues) - 1)[taken_row[going_on]],
            goers[going_on],
        )
        for rows in forest.parts(nodes, taken):
            here = (taken_row >= rows.start) & (taken_row < rows.stop)
            stack.append((nodes, taken[rows], reached[rows], taken_row[here] - rows.start, goers[here]))
        if not stack:
            return
        above, taken, log2_q, at, who = stack.pop()
        nodes = forest.read_part(above, taken)


def _joined_proposals(forest: Forest, requests: Sequence[DescentRequest]) -> list[Any]:
    """Return the proposals of the requests' mixtures; proposals that learned from draws are joined."""
    columns = zip(*(request.mixture.proposals for request in requests), strict=True)
    return [
        proposals[0] if isinstance(proposals[0], Power) else type(proposals[0]).joined(forest, proposals)
        for proposals in columns
    ]


def _chances(
    forest: Forest, proposals: Sequence[Any], nodes: Nodes, children: Children, bounds: FloatArray
) -> FloatArray:
    """Return each proposal's probabilities of the children, ``[m, K]``."""
    chances = np.empty((len(children), len(proposals)))
    # All powers need the same differences of costs.
    difference = above_lowest(nodes, children)
    for number, proposal in enumerate(proposals):
        if isinstance(proposal, Power):
            chances[:, number] = shares(np.exp2(proposal.power * difference), children.parents, len(nodes))
        else:
            bound_of = bounds[forest.trees_of(nodes, children)]
            chances[:, number] = proposal.chances(forest, nodes, children, bound_of)
    return chances


class Draws:
    """The random numbers and random fillings that decide the path of each descent in the trees of a forest."""

    def __init__(self, forest: Forest, requests: Sequence[DescentRequest]) -> None:
        self.requests, self._random = requests, requests[0].mixture.uniform
        self.bounds = np.array([request.bound for request in requests])
        """Largest cost in bits of the children to choose from in each tree."""
        sizes = np.array([len(request.numbers) for request in requests])
        self.first = np.cumsum(sizes) - sizes
        """The first descent in each tree."""
        self.trees = np.repeat(np.arange(len(requests)), sizes)
        """The tree of each descent."""
        self.proposals = np.concatenate([request.proposals for request in requests])
        """The number of each descent's proposal."""
        self._numbers = UniformNumbers([(request.seed, request.numbers) for request in requests])
        self._uniform: dict[int, FloatArray] = {}
        self._width = len(forest.paths.columns)
        made = [request.random_paths(tree) for request, tree in zip(requests, forest.trees, strict=True)]
        self._lengths = np.concatenate([lengths for _, lengths in made])
        self._columns = np.zeros((len(self.trees), max(columns.shape[1] for columns, _ in made)), dtype=np.int64)
        for first, (columns, _) in zip(self.first.tolist(), made, strict=True):
            self._columns[first : first + len(columns), : columns.shape[1]] = columns

    def choose(self, nodes: Nodes, children: Children, chance: FloatArray, at: IntArray, who: IntArray) -> IntArray:
        """Return the row of ``children`` that each descent chooses, −1 if it ends."""
        depth = nodes.paths.shape[1]
        if depth not in self._uniform:
            self._uniform[depth] = self._numbers.at(depth)
        first = np.searchsorted(children.parents, np.arange(len(nodes) + 1))
        chosen = np.full(len(who), -1, dtype=np.int64)
        open_, proposal = first[at + 1] > first[at], self.proposals[who]
        rows = np.flatnonzero(open_ & (proposal < self._random))
        chosen[rows] = _sampled_children(chance, proposal[rows], first, at[rows], self._uniform[depth][who[rows]])
        rows = np.flatnonzero(open_ & (self._lengths[who] > depth))
        if len(rows):
            cell = children.parents * self._width + children.columns
            wanted = at[rows] * self._width + self._columns[who[rows], depth]
            row = np.minimum(np.searchsorted(cell, wanted), len(cell) - 1)
            chosen[rows] = np.where(cell[row] == wanted, row, -1)
        return chosen

    def whole(self, who: IntArray, depth: int) -> BoolArray:
        """Return a mask of the descents that follow a random filling whose last token is number ``depth`` (from 0)."""
        return self._lengths[who] == depth + 1

    def visits_of_trees(self, forest: Forest, visit: Visit) -> Iterator[tuple[int, Visit]]:
        """Yield the part of a visit of each tree with its index."""
        if len(forest) == 1:
            yield 0, visit
            return
        every = np.arange(len(forest) + 1)
        draws, goers = (np.searchsorted(self.trees[of], every).tolist() for of in (visit.who, visit.goers))
        for part in forest.parts_of_trees(visit.nodes, visit.children):
            here, among = (slice(ends[part.tree], ends[part.tree + 1]) for ends in (draws, goers))
            taken = slice(*np.searchsorted(visit.rows, [part.rows.start, part.rows.stop]).tolist())
            chosen = visit.taken[taken]
            chosen = Children(chosen.parents - part.first, chosen.columns, chosen.states, chosen.costs)
            yield (
                part.tree,
                Visit(
                    part.nodes,
                    part.children,
                    visit.chance[part.rows],
                    visit.log2_q[part.first : part.first + len(part.nodes)],
                    visit.at[here] - part.first,
                    visit.who[here] - self.first[part.tree],
                    chosen,
                    visit.rows[taken] - part.rows.start,
                    visit.goers[among] - self.first[part.tree],
                    visit.taken_row[among] - taken.start,
                    visit.whole[among],
                ),
            )


def _sampled_children(
    chance: FloatArray, proposal: IntArray, first: IntArray, at: IntArray, uniform: FloatArray
) -> IntArray:
    """Return the child that each descent chooses: invert its node's cumulative probabilities at a uniform number."""
    total = np.concatenate([[0.0], np.cumsum(chance.T)])
    before = proposal * len(chance)
    taken = np.searchsorted(total, total[before + first[at]] + uniform, side="right") - 1 - before
    return np.clip(taken, first[at], first[at + 1] - 1)


def distinct_rows(chosen: IntArray, rows: int) -> tuple[IntArray, IntArray]:
    """Return the distinct chosen rows, in order, and the index of each choice among them; there are ``rows`` rows."""
    marks = np.zeros(rows, dtype=bool)
    marks[chosen] = True
    return np.flatnonzero(marks), (np.cumsum(marks) - 1)[chosen]
