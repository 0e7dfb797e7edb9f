"""Random descents of the tree of partial fillings, as many at once as there are, and the ways that they choose.

Descents at one node are one row of a batch. Which child a descent goes on to depends on the seed, its number and
its depth alone: neither batch nor company changes it, and the first 10 of 100 are those 10.

A policy says with what chance a draw goes on to each child of a node; a mixture gives every draw one policy, by its
number. Whatever the policies, weighting what a draw meets by the mixture's mean probability of it keeps estimates
unbiased (the balance heuristic as a deterministic mixture: Veach and Guibas 1995; Owen and Zhou 2000), and no weight
exceeds that under any one policy over its share (defensive importance sampling: Hesterberg 1995).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray


class Proposal(Protocol):
    """A way to choose among a node's children."""

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """Chance of each child among its siblings, shape ``[m]``; ``children`` cost no more than ``bound``."""
        ...


@dataclass(frozen=True)
class Power:
    """In proportion to the model's probabilities to a power: all alike (0) to as the model has it (1)."""

    power: float

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """See :class:`Proposal`."""
        lowest = np.full(len(nodes), np.inf)
        np.minimum.at(lowest, children.parents, children.costs)
        return shares(np.exp2(self.power * (lowest[children.parents] - children.costs)), children.parents, len(nodes))


def shares(mass: FloatArray, parents: IntArray, nodes: int) -> FloatArray:
    """Each child's share of its siblings' mass, ``[m]``."""
    return mass / np.bincount(parents, weights=mass, minlength=nodes)[parents]


@dataclass(frozen=True)
class PolicyMixture:
    """Proposals in turn: draw i has number ``pattern[i % len(pattern)]`` of ``proposals``.

    The number after the last proposal stands for a filling chosen at random, each with the same chance 1/|R|, whose
    path is then followed: it bounds every weight by |R| over its share, on every tokenizer.
    """

    proposals: tuple[Proposal, ...]
    pattern: tuple[int, ...]

    @property
    def uniform(self) -> int:
        """The number that stands for fillings chosen at random."""
        return len(self.proposals)

    def of(self, numbers: range) -> IntArray:
        """The proposal of each draw, ``[n]``."""
        return np.resize(np.roll(self.pattern, -(numbers.start % len(self.pattern))), len(numbers))

    def share(self, proposal: int) -> float:
        """Share of the draws that have a proposal."""
        return self.pattern.count(proposal) / len(self.pattern)

    @cached_property
    def shares(self) -> FloatArray:
        """Share of each proposal, that of random fillings left out, ``[K]``."""
        return np.array([self.share(proposal) for proposal in range(self.uniform)])


AS_THE_MODEL = PolicyMixture((Power(1.0),), (0,))
"""Every draw as the model has it."""
POWERS = tuple(Power(power) for power in (0.0, 0.25, 0.5, 0.75, 1.0))
MODEL = len(POWERS) - 1
"""The place of the model's own probabilities among :data:`POWERS`."""
EXPLORING = PolicyMixture(POWERS, (0, 1, 2, 3, 4, 5, 4, 2))
"""Before anything is known of the costs further down."""


def adaptive_mixture(proposal: Proposal) -> PolicyMixture:
    """Most draws by ``proposal``, the others spread over all that bounds or hedges it: two in sixteen are random."""
    ahead, random = len(POWERS), len(POWERS) + 1
    return PolicyMixture((*POWERS, proposal), _interleaved([ahead] * 9 + [0, 1, 2, 3, MODEL, random, random]))


def model_mixture() -> PolicyMixture:
    """Most draws as the model has it: where none finds anything, that bounds best how much there can be."""
    return PolicyMixture(POWERS, _interleaved([MODEL] * 14 + [0, len(POWERS)]))


def _interleaved(pattern: Sequence[int]) -> tuple[int, ...]:
    """The same numbers, those of one kind not all together, so that a part of the pattern has all kinds."""
    return tuple(pattern[7 * index % len(pattern)] for index in range(len(pattern)))


@dataclass(frozen=True)
class Visit:
    """A batch of nodes that were read, and the descents that came there.

    Descent ``who[i]`` stands at row ``at[i]`` of ``nodes``; ``log2_q`` ``[nodes, K]`` is log2 of the probability to
    come to a node by each of K proposals, ``chance`` ``[children, K]`` that to go on from it to a child. ``taken`` are
    those of ``children``, their ``rows``, that some descent goes on to: descent ``goers[i]`` to row ``place[i]`` of
    ``taken``. ``whole[i]`` says of a goer that it follows a random filling, which that child ends. Descents are
    numbered from 0 within the call.
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
    place: IntArray
    whole: BoolArray


def descend(
    explorer: SearchTree, numbers: range, seed: str, *, bound: float = np.inf, mixture: PolicyMixture = AS_THE_MODEL
) -> Iterator[Visit]:
    """Every batch of nodes that the descents of these ``numbers`` come to, from the root.

    Each goes by its own proposal of the ``mixture``, among children that cost no more than ``bound``, until no token
    may follow; one after a random filling ends where that costs more.
    """
    draws = _Draws(explorer, numbers, seed, mixture)
    waiting: list[tuple[Nodes, Children, FloatArray, IntArray, IntArray]] = []
    nodes, log2_q = explorer.root, np.zeros((1, mixture.uniform))
    at, who = np.zeros(len(numbers), dtype=np.int64), np.arange(len(numbers))
    while True:
        children = explorer.children(nodes, bound)
        chance = np.stack(
            [proposal.chances(explorer, nodes, children, bound) for proposal in mixture.proposals], axis=1
        )
        chosen = draws.choose(nodes, children, chance, at, who)
        goers = who[chosen >= 0]
        used, place = _used(chosen[chosen >= 0], len(children))
        with np.errstate(divide="ignore"):
            taken, reached = children[used], log2_q[children.parents[used]] + np.log2(chance[used])
        whole = draws.whole(goers, nodes.paths.shape[1])
        yield Visit(nodes, children, chance, log2_q, at, who, taken, used, goers, place, whole)
        on = explorer.paths.goes_on(taken.states)
        still = on[place]
        taken, reached, place, goers = taken[on], reached[on], (np.cumsum(on) - 1)[place[still]], goers[still]
        for part in explorer.parts(nodes, taken):
            here = (place >= part.start) & (place < part.stop)
            waiting.append((nodes, taken[part], reached[part], place[here] - part.start, goers[here]))
        if not waiting:
            return
        above, taken, log2_q, at, who = waiting.pop()
        nodes = explorer.read_part(above, taken)


class _Draws:
    """What makes each descent go where it goes."""

    def __init__(self, explorer: SearchTree, numbers: range, seed: str, mixture: PolicyMixture) -> None:
        self._numbers, self._seed, self._random = numbers, seed, mixture.uniform
        self._proposal = mixture.of(numbers)
        self._uniform: dict[int, FloatArray] = {}
        self._width = len(explorer.paths.columns)
        earlier = int((mixture.of(range(numbers.start)) == mixture.uniform).sum())
        self._columns, self._lengths = _random_paths(explorer, self._proposal == mixture.uniform, earlier, seed)

    def choose(self, nodes: Nodes, children: Children, chance: FloatArray, at: IntArray, who: IntArray) -> IntArray:
        """The row of ``children`` that each descent goes on to, −1 for none."""
        depth = nodes.paths.shape[1]
        if depth not in self._uniform:
            self._uniform[depth] = _uniform(f"{self._seed}:{depth}", self._numbers)
        first = np.searchsorted(children.parents, np.arange(len(nodes) + 1))
        chosen = np.full(len(who), -1, dtype=np.int64)
        open_, proposal = first[at + 1] > first[at], self._proposal[who]
        rows = np.flatnonzero(open_ & (proposal < self._random))
        chosen[rows] = _take(chance, proposal[rows], first, at[rows], self._uniform[depth][who[rows]])
        rows = np.flatnonzero(open_ & (self._lengths[who] > depth))
        if len(rows):
            cell = children.parents * self._width + children.columns
            wanted = at[rows] * self._width + self._columns[who[rows], depth]
            place = np.minimum(np.searchsorted(cell, wanted), len(cell) - 1)
            chosen[rows] = np.where(cell[place] == wanted, place, -1)
        return chosen

    def whole(self, who: IntArray, depth: int) -> BoolArray:
        """Which of some descents follow a random filling that the next token, number ``depth`` from 0, ends."""
        return self._lengths[who] == depth + 1


def _random_paths(explorer: SearchTree, at_random: BoolArray, earlier: int, seed: str) -> tuple[IntArray, IntArray]:
    """Columns of the path of a random filling for each descent that follows one, ``[n, longest]``, and its length.

    The first of them are those after so many ``earlier`` ones. Lengths are 0 for all other descents.
    """
    lengths = np.zeros(len(at_random), dtype=np.int64)
    rows = np.flatnonzero(at_random)
    fillings = explorer.space.sample(earlier + len(rows), seed)[earlier:] if len(rows) else []
    paths = [explorer.paths.path(filling) for filling in fillings]
    lengths[rows] = [len(path) for path in paths]
    columns = np.zeros((len(at_random), max(1, int(lengths.max(initial=0)))), dtype=np.int64)
    for row, path in zip(rows.tolist(), paths, strict=True):
        columns[row, : len(path)] = explorer.columns_of(path)
    return columns, lengths


def _take(chance: FloatArray, proposal: IntArray, first: IntArray, at: IntArray, uniform: FloatArray) -> IntArray:
    """The child each descent goes on to: its node's cumulative q, by its proposal, inverted at a uniform number."""
    total = np.concatenate([[0.0], np.cumsum(chance.T)])
    before = proposal * len(chance)
    taken = np.searchsorted(total, total[before + first[at]] + uniform, side="right") - 1 - before
    return np.clip(taken, first[at], first[at + 1] - 1)


def _used(chosen: IntArray, rows: int) -> tuple[IntArray, IntArray]:
    """Which of so many ``rows`` are chosen, in order, and where among them each choice stands."""
    marks = np.zeros(rows, dtype=bool)
    marks[chosen] = True
    return np.flatnonzero(marks), (np.cumsum(marks) - 1)[chosen]


def _uniform(seed: str, numbers: range) -> FloatArray:
    """One number in [0, 1) for each of ``numbers``, the same in whatever range it is asked for."""
    words = np.frombuffer(seed.encode(), dtype=np.uint8).astype(np.uint32)
    return np.random.Generator(np.random.PCG64(words).advance(numbers.start)).random(len(numbers))
