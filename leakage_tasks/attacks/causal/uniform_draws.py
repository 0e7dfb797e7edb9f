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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from leakage_tasks.attacks.causal.lookahead import Lookahead, Observed
from leakage_tasks.attacks.causal.path_counts import PathCounts
from leakage_tasks.attacks.causal.random_descents import Visit, distinct_rows
from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, mask_of
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray

AnyVisit = TypeVar("AnyVisit", "GroupVisit", Visit)
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


def read_groups(groups: Groups, number: int, seed: str, bound: float) -> Iterator[GroupVisit]:
    """Read the paths of ``number`` groups of uniform random fillings, up to ``bound`` bits.

    The child that a draw chooses depends on the seed, its number and the depth only.
    """
    explorer, counts = groups.explorer, groups.counts
    cut, stack = explorer.cut(bound), []
    nodes, who = explorer.root, np.arange(number * groups.size)
    at = np.zeros(len(who), dtype=np.int64)

    @cache
    def uniform(depth: int) -> FloatArray:
        words = np.frombuffer(f"{seed}:{depth}".encode(), dtype=np.uint8).astype(np.uint32)
        return np.random.Generator(np.random.PCG64(words)).random(number)

    while True:
        children, fillings = explorer.children(nodes), counts.of(nodes.states)
        chance = counts.of(children.states) / fillings[children.parents]
        member = who % groups.size
        shift = np.where(fillings[at] <= groups.ends, member / groups.size, 0.0)
        chosen = _chosen(
            chance, children.parents, at, (uniform(nodes.paths.shape[1])[who // groups.size] + shift) % 1.0
        )
        is_complete = fillings[at] == 1
        goes = (children.costs[chosen] <= cut) & explorer.paths.goes_on(children.states[chosen])
        goes &= ~is_complete | (member == 0)
        yield GroupVisit(nodes, children, chance, at, who, chosen, goes, is_complete)
        rows, row = distinct_rows(chosen[goes], len(children))
        taken, goers = children[rows], who[goes]
        for part in explorer.parts(nodes, taken):
            here = (row >= part.start) & (row < part.stop)
            stack.append((nodes, taken[part], row[here] - part.start, goers[here]))
        if not stack:
            return
        above, taken, at, who = stack.pop()
        nodes = explorer.read_part(above, taken)


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


def shares_of_groups(
    groups: Groups,
    secret: Sequence[int],
    bounds: Sequence[float],
    number: int,
    visits: Iterable[GroupVisit],
    prediction: Prediction,
) -> tuple[FloatArray, IntArray]:
    """Compute one unbiased estimate per group of the share of fillings that cost no more than each of ``bounds``.

    Args:
        groups: The groups.
        secret: Token path of the secret, which is not counted.
        bounds: Costs in bits.
        number: Number of groups.
        visits: The visits of :func:`read_groups`, up to the largest bound.
        prediction: The control variate, which must not depend on these draws.

    Returns:
        The estimates ``[bounds, number]``, and the number of distinct fillings that were reached, ``[bounds]``.
    """
    draws = number * groups.size
    shares, weights, seen = np.zeros((len(bounds), draws)), np.ones(draws), np.zeros(len(bounds), dtype=np.int64)
    for visit in visits:
        children, explorer = visit.children, groups.explorer
        onward, ending = explorer.paths.goes_on(children.states), _ending(explorer, visit, secret)
        before, goers, chosen = weights[visit.who], visit.who[visit.goes], visit.chosen[visit.goes]
        weights[goers] = np.where(visit.is_complete[visit.goes], groups.size, weights[goers])
        for index, bound in enumerate(bounds):
            inside = ending & (children.costs <= bound)
            seen[index] += int(inside.sum())
            predicted = np.where(onward, prediction.shares(children, bound), inside)
            means = np.bincount(children.parents, weights=visit.chance * predicted, minlength=len(visit.nodes))
            shares[index, visit.who] += before * means[visit.at]
            shares[index, goers] -= weights[goers] * predicted[chosen]
    return shares.reshape(len(bounds), number, groups.size).mean(axis=2), seen


def _ending(explorer: SearchTree, visit: GroupVisit, secret: Sequence[int]) -> BoolArray:
    """Return a mask of the children that complete a text other than the secret's."""
    ending: BoolArray = explorer.paths.ends(visit.children.states).copy()
    rows = np.flatnonzero(ending)
    ending[rows] = ~mask_of(explorer.child_paths(visit.nodes, visit.children[rows]), secret)
    return ending


def without_caches(visits: Iterable[AnyVisit]) -> list[AnyVisit]:
    """Keep visits after all paths were read, without the KV caches of their nodes."""
    return [dataclasses.replace(visit, nodes=dataclasses.replace(visit.nodes, memory=None)) for visit in visits]


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
