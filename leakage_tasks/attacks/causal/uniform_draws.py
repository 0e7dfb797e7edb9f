"""Uniform random fillings in groups, and their estimates of the share of fillings that cost no more than a secret.

The paths of all draws are read together, so that equal beginnings are read once. A path ends when it costs more than
the secret. If text follows the last slot, the draws of a group share all slots but the last: they see several endings
for the price of one beginning. Once a filling is complete, one draw of its group reads the rest of the text with the
weight of the group, since the costs of this text vary little.

A node that is read gives the costs of all its children. So a prediction of the share of cheap fillings below each child
is a control variate: at each node of its path, a draw adds the mean prediction of the children, weighted by their
probabilities, and subtracts the prediction for the child that it reads next. The prediction for a child that ends a
text is the true 0 or 1. The estimate is unbiased for any prediction that does not depend on the draw; an exact
prediction leaves no variance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.forest import Forest, in_forest
from leakage_tasks.attacks.causal.lookahead import Lookahead, Observed
from leakage_tasks.attacks.causal.path_counts import PathCounts
from leakage_tasks.attacks.causal.random_descents import distinct_rows
from leakage_tasks.attacks.causal.search_tree import NO_COSTS, Children, Nodes, SearchTree, mask_of
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

GROUP = 4
"""Number of draws in a group, if text follows the last slot."""


@dataclass(frozen=True)
class Groups:
    """Groups of uniform draws in one tree: ``size`` draws each; draw i belongs to group i // ``size``.

    ``counts`` gives the chances of each child. From a node with at most ``ends`` fillings on, the draws of a group
    differ.
    """

    explorer: SearchTree
    counts: PathCounts
    size: int
    ends: int

    @classmethod
    def of(cls, explorer: SearchTree, counts: PathCounts) -> Groups:
        """Return groups for a tree, of one draw each if no text follows the last slot."""
        has_rest = ((counts.fillings == 1) & explorer.paths.goes_on(counts.states)).any()
        return cls(explorer, counts, GROUP if has_rest else 1, len(explorer.space.slots[-1]))


@dataclass(frozen=True)
class GroupVisit:
    """Nodes that were read, all of their ``children``, and the draws at these nodes.

    Draw ``who[i]`` is at row ``at[i]`` of ``nodes`` and chose row ``chosen[i]`` of ``children``, which is read next if
    ``goes[i]``. ``is_complete[i]`` is true if its filling is complete. ``chance`` has the children's probabilities.
    """

    nodes: Nodes
    children: Children
    chance: FloatArray
    at: IntArray
    who: IntArray
    chosen: IntArray
    goes: BoolArray
    is_complete: BoolArray
    observed: list[Observed] = dataclasses.field(default_factory=list, repr=False)
    """The record of these nodes that lookaheads learn from, empty until it is made."""


@dataclass(frozen=True)
class GroupRequest:
    """A request for ``number`` groups of uniform random fillings, up to ``bound`` bits; ``see`` gets each visit."""

    groups: Groups
    number: int
    seed: str
    bound: float
    see: Callable[[GroupVisit], None]

    def uniform(self, depth: int) -> FloatArray:
        """Return the random number of each group at a depth, ``[number]``."""
        words = np.frombuffer(f"{self.seed}:{depth}".encode(), dtype=np.uint8).astype(np.uint32)
        return np.random.Generator(np.random.PCG64(words)).random(self.number)


def read_groups(
    groups: Groups, number: int, seed: str, bound: float, see: Callable[[GroupVisit], None] = lambda visit: None
) -> None:
    """Read the paths of ``number`` groups of uniform random fillings, up to ``bound`` bits; ``see`` gets each visit.

    The child that a draw chooses depends on the seed, its number and the depth only.
    """
    in_forest(_read_groups, groups.explorer, GroupRequest(groups, number, seed, bound, see), number * groups.size)


def _read_groups(forest: Forest, requests: Sequence[GroupRequest]) -> Sequence[None]:
    """Read the paths of groups of fillings in each tree of a forest."""
    counts, size, ends = requests[0].groups.counts, requests[0].groups.size, requests[0].groups.ends
    numbers = np.array([request.number for request in requests])
    cuts = np.array([forest.cut(request.bound) for request in requests])
    tree, group = np.repeat(np.arange(len(requests)), size * numbers), np.repeat(np.arange(numbers.sum()), size)
    first = size * (np.cumsum(numbers) - numbers)
    nodes, who, stack = forest.root, np.arange(len(tree)), []
    at, depths = tree, [np.concatenate([request.uniform(0) for request in requests])]
    while True:
        children, fillings = forest.children(nodes), counts.of(nodes.states)
        nodes.following = NO_COSTS
        chance = counts.of(children.states) / fillings[children.parents]
        member, depth = who % size, nodes.paths.shape[1]
        if depth == len(depths):
            depths.append(np.concatenate([request.uniform(depth) for request in requests]))
        shift = np.where(fillings[at] <= ends, member / size, 0.0)
        chosen = _chosen(chance, children.parents, at, (depths[depth][group[who]] + shift) % 1.0)
        is_complete = fillings[at] == 1
        goes = (children.costs[chosen] <= cuts[tree[who]]) & forest.paths.goes_on(children.states[chosen])
        goes &= ~is_complete | (member == 0)
        seen = GroupVisit(nodes, children, chance, at, who, chosen, goes, is_complete)
        for index, visit in _visits_of_trees(forest, seen, tree[who], first):
            requests[index].see(visit)
        rows, row = distinct_rows(chosen[goes], len(children))
        taken, goers = children[rows], who[goes]
        for part in forest.parts(nodes, taken):
            here = (row >= part.start) & (row < part.stop)
            stack.append((nodes, taken[part], row[here] - part.start, goers[here]))
        if not stack:
            return [None] * len(requests)
        above, taken, at, who = stack.pop()
        nodes = forest.read_part(above, taken)


def _visits_of_trees(
    forest: Forest, visit: GroupVisit, trees: IntArray, first: IntArray
) -> Iterator[tuple[int, GroupVisit]]:
    """Yield the part of a visit of each tree with its index.

    Args:
        forest: The trees.
        visit: The visit.
        trees: The tree of each draw in ``visit.who``, ascending.
        first: The first draw of each tree, ``[trees]``.
    """
    ends = np.searchsorted(trees, np.arange(len(forest) + 1)).tolist()
    for part in forest.parts_of_trees(visit.nodes, visit.children):
        draws = slice(ends[part.tree], ends[part.tree + 1])
        at, who, chosen = (column[draws] for column in (visit.at, visit.who, visit.chosen))
        at, who, chosen = at - part.first, who - first[part.tree], chosen - part.rows.start
        flags = visit.goes[draws], visit.is_complete[draws]
        yield part.tree, GroupVisit(part.nodes, part.children, visit.chance[part.rows], at, who, chosen, *flags)


def _chosen(chance: FloatArray, parents: IntArray, at: IntArray, uniform: FloatArray) -> IntArray:
    """Return the row of the child that each draw chooses: invert its node's cumulative chances at a uniform number."""
    total = np.cumsum(chance)
    first = np.searchsorted(parents, at)
    last = np.searchsorted(parents, at, side="right") - 1
    rows = np.searchsorted(total, total[first] - chance[first] + uniform, side="right")
    return np.clip(rows, first, last)


@dataclass(frozen=True)
class Prediction:
    """Predicted shares of cheap fillings below a child: the lookahead's number of fillings divided by their total."""

    lookahead: Lookahead
    counts: PathCounts

    def shares(self, children: Children, bound: float) -> FloatArray:
        """Return the predicted share of fillings below each child that cost no more than ``bound``, ``[m]``."""
        share = self.lookahead.expected(children, bound) / self.counts.of(children.states)
        return np.where(children.costs <= bound, np.clip(share, 0.0, 1.0), 0.0)


class GroupShares:
    """One unbiased estimate per group of the share of fillings that cost no more than each of ``bounds``.

    :meth:`add` takes the visits of :func:`read_groups`, up to the largest bound.
    """

    def __init__(
        self, groups: Groups, secret: Sequence[int], bounds: Sequence[float], number: int, prediction: Prediction
    ) -> None:
        """Set up the estimates.

        Args:
            groups: The groups.
            secret: Token path of the secret, which is not counted.
            bounds: Costs in bits.
            number: Number of groups.
            prediction: The control variate, which must not depend on these draws.
        """
        self._groups, self._secret, self._bounds, self._prediction = groups, secret, bounds, prediction
        draws = number * groups.size
        self._shares, self._weights = np.zeros((len(bounds), draws)), np.ones(draws)
        self.seen = np.zeros(len(bounds), dtype=np.int64)
        """Number of distinct fillings that were reached, ``[bounds]``."""

    @property
    def values(self) -> FloatArray:
        """The estimates, ``[bounds, number]``."""
        values: FloatArray = self._shares.reshape(len(self._bounds), -1, self._groups.size).mean(axis=2)
        return values

    def add(self, visit: GroupVisit) -> None:
        """Add the estimates at the nodes of a visit."""
        children, explorer, weights = visit.children, self._groups.explorer, self._weights
        onward, ending = explorer.paths.goes_on(children.states), _ending(explorer, visit, self._secret)
        before, goers, chosen = weights[visit.who], visit.who[visit.goes], visit.chosen[visit.goes]
        weights[goers] = np.where(visit.is_complete[visit.goes], self._groups.size, weights[goers])
        for index, bound in enumerate(self._bounds):
            inside = ending & (children.costs <= bound)
            self.seen[index] += int(inside.sum())
            predicted = np.where(onward, self._prediction.shares(children, bound), inside)
            means = np.bincount(children.parents, weights=visit.chance * predicted, minlength=len(visit.nodes))
            self._shares[index, visit.who] += before * means[visit.at]
            self._shares[index, goers] -= weights[goers] * predicted[chosen]


def _ending(explorer: SearchTree, visit: GroupVisit, secret: Sequence[int]) -> BoolArray:
    """Return a mask of the children that complete a text other than the secret's."""
    ending: BoolArray = explorer.paths.ends(visit.children.states).copy()
    rows = np.flatnonzero(ending)
    if len(rows):
        ending[rows] = ~mask_of(explorer.child_paths(visit.nodes, visit.children[rows]), secret)
    return ending


def learn(lookahead: Lookahead, groups: Groups, visits: Iterable[GroupVisit], numbers: range) -> Lookahead:
    """Teach ``lookahead`` the costs at the nodes that the groups with these ``numbers`` visited; return it."""
    for visit in visits:
        here = (visit.who // groups.size >= numbers.start) & (visit.who // groups.size < numbers.stop)
        if here.any():
            if not visit.observed:
                visit.observed.append(lookahead.observed(visit.nodes, visit.children))
            lookahead.learn(visit.observed[0], visit.at[here])
    lookahead.settle()
    return lookahead
