"""Random descents of the tree of partial fillings, all at once, and the proposals by which they choose children.

All descents at one node are one row of a batch. The child that a descent chooses depends only on the seed, the number
of the descent and its depth. So batching and other descents do not change it, and the first 10 of 100 descents are the
10 descents of a smaller call.

A proposal gives each child of a node a probability. A mixture gives each descent one proposal, by its number. A filling
that a descent reaches is weighted by the inverse of the mixture's mean probability of reaching it, which keeps
estimates unbiased for any proposals (the balance heuristic as a deterministic mixture: Veach and Guibas 1995; Owen and
Zhou 2000). No weight exceeds the weight under any single proposal divided by that proposal's share (defensive
importance sampling: Hesterberg 1995).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from leakage_tasks.attacks.causal.forest import Forest, in_forest
from leakage_tasks.attacks.causal.search_tree import NO_COSTS, Children, Nodes, SearchTree
from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray


class ProposalDistribution(Protocol):
    """Interface of a proposal: a rule that gives each child of a node a probability."""

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """Return the proposal's probabilities of the children.

        Args:
            explorer: The search tree.
            nodes: n nodes.
            children: Their m children, all up to ``bound``.
            bound: Cost of the secret in bits.

        Returns:
            The probability of each child among its siblings, ``[m]``.
        """
        ...


@dataclass(frozen=True)
class Power:
    """A proposal in proportion to a power of the model's probabilities: from uniform (0) to the model's own (1)."""

    power: float

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """Return the children's shares of the model's probabilities to this power.

        Args:
            explorer: The search tree.
            nodes: n nodes.
            children: Their m children, all up to ``bound``.
            bound: Cost of the secret in bits.

        Returns:
            The probability of each child among its siblings, ``[m]``.
        """
        return shares(np.exp2(self.power * _above_lowest(nodes, children)), children.parents, len(nodes))


def _above_lowest(nodes: Nodes, children: Children) -> FloatArray:
    """Return the cost of each child's cheapest sibling without its own cost, ``[m]``."""
    lowest = np.full(len(nodes), np.inf)
    np.minimum.at(lowest, children.parents, children.costs)
    return lowest[children.parents] - children.costs


def shares(mass: FloatArray, parents: IntArray, nodes: int) -> FloatArray:
    """Return each child's share of the mass of all children of its parent, ``[m]``."""
    return mass / np.bincount(parents, weights=mass, minlength=nodes)[parents]


@dataclass(frozen=True)
class ProposalMixture:
    """Several proposals used in turn: draw i uses number ``pattern[i % len(pattern)]`` of ``proposals``.

    The number after the last proposal means a random filling: each filling has probability 1/|R|, and the draw follows
    its path. This bounds every weight by |R| divided by the share of random fillings, on every tokenizer.
    """

    proposals: tuple[ProposalDistribution, ...]
    pattern: tuple[int, ...]

    @property
    def uniform(self) -> int:
        """The number that means a random filling in ``pattern``."""
        return len(self.proposals)

    def of(self, numbers: range) -> IntArray:
        """Return the number of each draw's proposal, ``[n]``."""
        return np.resize(np.roll(self.pattern, -(numbers.start % len(self.pattern))), len(numbers))

    def share(self, proposal: int) -> float:
        """Return the share of the draws that use a proposal."""
        return self.pattern.count(proposal) / len(self.pattern)

    @property
    def form(self) -> Hashable:
        """Key of mixtures that differ at most in proposals that have learned from draws."""
        powers = tuple(proposal.power if isinstance(proposal, Power) else None for proposal in self.proposals)
        return powers, self.pattern

    @cached_property
    def shares(self) -> FloatArray:
        """Share of each proposal, without that of random fillings, ``[K]``."""
        return np.array([self.share(proposal) for proposal in range(self.uniform)])


MODEL_ALONE = ProposalMixture((Power(1.0),), (0,))
"""All draws use the model's own probabilities."""
POWERS = tuple(Power(power) for power in (0.0, 0.25, 0.5, 0.75, 1.0))
MODEL = len(POWERS) - 1
"""Index of the model's own probabilities in :data:`POWERS`."""
EXPLORING = ProposalMixture(POWERS, (0, 1, 2, 3, 4, 5, 4, 2))
"""The mixture for pilots, when the costs at greater depths are not yet known."""


def adaptive_mixture(proposal: ProposalDistribution) -> ProposalMixture:
    """Return a mixture with 9 of 16 draws by ``proposal``, 5 by powers of the model and 2 by random fillings."""
    ahead, random = len(POWERS), len(POWERS) + 1
    return ProposalMixture((*POWERS, proposal), _interleaved([ahead] * 9 + [0, 1, 2, 3, MODEL, random, random]))


def model_mixture() -> ProposalMixture:
    """Return a mixture in which most draws use the model's own probabilities.

    If no draw reaches a cheap filling, these draws give the tightest bound on the count.
    """
    return ProposalMixture(POWERS, _interleaved([MODEL] * 14 + [0, len(POWERS)]))


def _interleaved(pattern: Sequence[int]) -> tuple[int, ...]:
    """Reorder the pattern so that each part of it contains all kinds of draws."""
    return tuple(pattern[7 * index % len(pattern)] for index in range(len(pattern)))


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
    """A request for the descents with some ``numbers``, with the arguments of :func:`descend`."""

    numbers: range
    seed: str
    see: Callable[[Visit], object]
    bound: float
    mixture: ProposalMixture

    @cached_property
    def proposals(self) -> IntArray:
        """Number of each descent's proposal, ``[n]``."""
        return self.mixture.of(self.numbers)

    def random_paths(self, explorer: SearchTree) -> tuple[IntArray, IntArray]:
        """Return the columns of the random filling's path of each descent ``[n, longest]``, and the lengths ``[n]``."""
        random = self.mixture.uniform
        earlier = int((self.mixture.of(range(self.numbers.start)) == random).sum())
        return _random_paths(explorer, self.proposals == random, earlier, self.seed)


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
    request = DescentRequest(numbers, seed, see, bound, mixture)
    in_forest(_descend, explorer, request, len(numbers), mixture.form)


def _descend(forest: Forest, requests: Sequence[DescentRequest]) -> Sequence[None]:
    """Make descents in each tree of a forest, by mixtures of one form."""
    draws, mixture = _Draws(forest, requests), requests[0].mixture
    bounds = np.array([request.bound for request in requests])
    stack: list[tuple[Nodes, Children, FloatArray, IntArray, IntArray]] = []
    nodes, log2_q = forest.root, np.zeros((len(requests), mixture.uniform))
    at, who = draws.trees, np.arange(len(draws.trees))
    while True:
        assert nodes.trees is not None
        children = forest.children(nodes, bounds[nodes.trees][:, None])
        chance = _chances(forest, requests, nodes, children)
        chosen = draws.choose(nodes, children, chance, at, who)
        goers = who[chosen >= 0]
        used, taken_row = distinct_rows(chosen[chosen >= 0], len(children))
        with np.errstate(divide="ignore"):
            taken, reached = children[used], log2_q[children.parents[used]] + np.log2(chance[used])
        whole = draws.whole(goers, nodes.paths.shape[1])
        visit = Visit(nodes, children, chance, log2_q, at, who, taken, used, goers, taken_row, whole)
        for index, part in draws.visits_of_trees(forest, visit):
            requests[index].see(part)
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
            return [None] * len(requests)
        above, taken, log2_q, at, who = stack.pop()
        nodes = forest.read_part(above, taken)


def _chances(forest: Forest, requests: Sequence[DescentRequest], nodes: Nodes, children: Children) -> FloatArray:
    """Return each proposal's probabilities of the children, ``[m, K]``."""
    chances = np.empty((len(children), requests[0].mixture.uniform))
    # All powers need the same differences of costs.
    difference, parts = _above_lowest(nodes, children), None
    for number, proposal in enumerate(requests[0].mixture.proposals):
        if isinstance(proposal, Power):
            mass = np.exp2(proposal.power * difference)
            chances[:, number] = shares(mass, children.parents, len(nodes))
            continue
        parts = parts or list(forest.parts_of_trees(nodes, children))
        for part in parts:
            learned = requests[part.tree].mixture.proposals[number]
            bound = requests[part.tree].bound
            chances[part.rows, number] = learned.chances(forest.trees[part.tree], part.nodes, part.children, bound)
    return chances


class _Draws:
    """The random numbers and random fillings that decide the path of each descent in the trees of a forest."""

    def __init__(self, forest: Forest, requests: Sequence[DescentRequest]) -> None:
        self._requests, self._random = requests, requests[0].mixture.uniform
        sizes = np.array([len(request.numbers) for request in requests])
        self._first = np.cumsum(sizes) - sizes
        self.trees = np.repeat(np.arange(len(requests)), sizes)
        """The tree of each descent."""
        self._proposal = np.concatenate([request.proposals for request in requests])
        self._uniform: dict[int, FloatArray] = {}
        self._width = len(forest.paths.columns)
        made = [request.random_paths(tree) for request, tree in zip(requests, forest.trees, strict=True)]
        self._lengths = np.concatenate([lengths for _, lengths in made])
        self._columns = np.zeros((len(self.trees), max(columns.shape[1] for columns, _ in made)), dtype=np.int64)
        for first, (columns, _) in zip(self._first.tolist(), made, strict=True):
            self._columns[first : first + len(columns), : columns.shape[1]] = columns

    def choose(self, nodes: Nodes, children: Children, chance: FloatArray, at: IntArray, who: IntArray) -> IntArray:
        """Return the row of ``children`` that each descent chooses, −1 if it ends."""
        depth = nodes.paths.shape[1]
        if depth not in self._uniform:
            each = [_uniform(f"{request.seed}:{depth}", request.numbers) for request in self._requests]
            self._uniform[depth] = np.concatenate(each)
        first = np.searchsorted(children.parents, np.arange(len(nodes) + 1))
        chosen = np.full(len(who), -1, dtype=np.int64)
        open_, proposal = first[at + 1] > first[at], self._proposal[who]
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
                    visit.who[here] - self._first[part.tree],
                    chosen,
                    visit.rows[taken] - part.rows.start,
                    visit.goers[among] - self._first[part.tree],
                    visit.taken_row[among] - taken.start,
                    visit.whole[among],
                ),
            )


def _random_paths(explorer: SearchTree, at_random: BoolArray, earlier: int, seed: str) -> tuple[IntArray, IntArray]:
    """Return the columns of each random filling's path, ``[n, longest]``, and the paths' lengths ``[n]``.

    The first ``earlier`` random fillings of the stream are skipped. Descents without a random filling have length 0.
    """
    lengths = np.zeros(len(at_random), dtype=np.int64)
    rows = np.flatnonzero(at_random)
    fillings = explorer.space.sample(earlier + len(rows), seed)[earlier:] if len(rows) else []
    paths = explorer.paths.each_path(fillings) if fillings else []
    lengths[rows] = [len(path) for path in paths]
    columns = np.zeros((len(at_random), max(1, int(lengths.max(initial=0)))), dtype=np.int64)
    for row, path in zip(rows.tolist(), paths, strict=True):
        columns[row, : len(path)] = explorer.columns_of(path)
    return columns, lengths


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


def _uniform(seed: str, numbers: range) -> FloatArray:
    """Return one uniform number in [0, 1) for each of ``numbers``; it does not depend on the rest of the range."""
    words = np.frombuffer(seed.encode(), dtype=np.uint8).astype(np.uint32)
    return np.random.Generator(np.random.PCG64(words).advance(numbers.start)).random(len(numbers))
