"""Extraction by best-first search, which finds the cheapest fillings of the whole space."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.attacks.causal.beam import BEAM, beam_search
from leakage_tasks.attacks.causal.search_tree import NO_COSTS, NO_LOGITS, Children, Nodes, SearchTree, distinct
from leakage_tasks.attacks.finding import AttackResult, Guess, best_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import PredictsNextToken

PAPER = "paper"
STOPPING = Option(
    "stopping",
    str,
    "proven",
    "when best-first search ends: with ten certain guesses (proven), or after twice as many iterations as the first "
    "filling took (paper)",
    choices=("proven", PAPER),
)
BATCH = Option("batch", int, 128, "number of nodes that best-first search reads per iteration", minimum=1)


@register("shortest-path", "extraction", PredictsNextToken, auto=1, remedy=NO_LOGITS, options=(STOPPING, BATCH))
def shortest_path(request: AttackRequest) -> AttackResult:
    """Return the ten cheapest fillings by best-first search over partial fillings (The Secret Sharer, section 5.4).

    Each iteration reads ``batch`` nodes, and the result is still certain: a filling is final once it costs no more than
    the cheapest node left (``batch=1`` is Dijkstra's algorithm). A beam search runs first; nodes that cost more than
    its tenth filling are pruned. ``stopping=paper`` is the paper's rule, without beam search and certainty: if the
    first whole filling appears in iteration n, the search ends after 2n iterations and sorts its fillings. When
    ``budget`` sequences are spent, the search returns the best fillings so far; ``proven`` of them are certain.
    """
    explorer = SearchTree(request.target, request.canary.attack_space)
    explorer.path_of(request.canary.secret)
    limit = explorer.calls + request.budget
    paper, batch = request.values[STOPPING.name] == PAPER, request.values[BATCH.name]
    known = [] if paper else beam_search(explorer, BEAM, limit)
    run = _search(explorer, known, limit, batch, paper)
    effort = {"iterations": run.iterations, "first_leaf_iteration": run.first_leaf}
    return explorer.result(request.canary.secret, run.best, run.proven, **effort)


@dataclass
class _Batch:
    """Children of nodes of one depth in order of cost, parent and column; children before ``at`` have been taken."""

    nodes: Nodes
    costs: FloatArray
    parents: NDArray[np.int32]
    columns: NDArray[np.int32]
    at: int = 0

    def take(self, most: int, bound: float, other: float, older: bool) -> slice:
        """Take the next 1 to ``most`` children, up to ``bound`` and before the children of another batch.

        ``other`` is the cost of the other batch's next child. If costs are equal, the ``older`` batch comes first.
        """
        within = np.searchsorted(self.costs, bound, side="right")
        cheaper = np.searchsorted(self.costs, other, side="right" if older else "left")
        first, self.at = self.at, max(min(int(within), int(cheaper), self.at + most), self.at + 1)
        return slice(first, self.at)


class _Frontier:
    """A priority queue of children by cost, then by age; the heap holds each batch's cheapest remaining child.

    There are several children for each node that is read, so little is stored per child: states are computed when a
    child is taken, and an empty batch is freed.
    """

    def __init__(self, explorer: SearchTree) -> None:
        self._explorer = explorer
        self._heap: list[tuple[float, int]] = []
        self._batches: dict[int, _Batch] = {}
        self._serial = 0

    def add(self, nodes: Nodes, bound: float) -> None:
        """Add the children of a batch that cost no more than ``bound``."""
        children = self._explorer.children(nodes, bound)
        if not len(children):
            return
        order = np.lexsort((children.columns, children.parents, children.costs))
        parents, columns = (column[order].astype(np.int32) for column in (children.parents, children.columns))
        number, self._serial = self._serial, self._serial + 1
        self._batches[number] = _Batch(nodes, children.costs[order], parents, columns)
        heapq.heappush(self._heap, (float(children.costs[order[0]]), number))

    def __bool__(self) -> bool:
        return bool(self._heap)

    def cheapest(self) -> float:
        """Return the cost of the cheapest remaining child."""
        return self._heap[0][0] if self._heap else np.inf

    def pop(self, most: int, bound: float) -> list[tuple[Nodes, Children]]:
        """Remove and return the cheapest children, up to ``most`` and ``bound``, with their parents' batches."""
        taken: dict[int, tuple[_Batch, list[slice]]] = {}
        while self._heap and most and self._heap[0][0] <= bound:
            _, number = heapq.heappop(self._heap)
            batch = self._batches[number]
            other, other_number = self._heap[0] if self._heap else (np.inf, self._serial)
            part = batch.take(most, bound, other, number < other_number)
            taken.setdefault(number, (batch, []))[1].append(part)
            most -= part.stop - part.start
            if batch.at < len(batch.costs):
                heapq.heappush(self._heap, (float(batch.costs[batch.at]), number))
            else:
                del self._batches[number]
        return [(batch.nodes, self._children(batch, parts)) for batch, parts in taken.values()]

    def _children(self, batch: _Batch, parts: Sequence[slice]) -> Children:
        indices = np.concatenate([np.arange(part.start, part.stop) for part in parts])
        parents, columns = (column[indices].astype(np.int64) for column in (batch.parents, batch.columns))
        states = self._explorer.paths.table(batch.nodes.states[parents])[np.arange(len(indices)), columns]
        return Children(parents, columns, states, batch.costs[indices])


@dataclass
class _Run:
    """Result of a search: the cheapest fillings, the number of proven fillings, and the numbers of iterations.

    Iterations are counted in total, and up to the first filling. The root is read in the first iteration.
    """

    best: list[Guess]
    proven: int = 0
    iterations: int = 1
    first_leaf: int | None = None


def _search(explorer: SearchTree, known: list[Guess], limit: int, batch: int, paper: bool) -> _Run:
    """Run a best-first search from the root, up to ``limit`` model calls in total; ``known`` fillings give a bound."""
    bound = explorer.tenth(known)
    run = _Run([])
    frontier = _Frontier(explorer)
    frontier.add(explorer.root, bound)
    while frontier and frontier.cheapest() <= bound and explorer.calls < limit:
        if paper and run.first_leaf and run.iterations == 2 * run.first_leaf:
            break
        run.iterations += 1
        taken = frontier.pop(min(batch, limit - explorer.calls), bound)
        for nodes, children in taken:
            run.best = best_guesses([*run.best, *explorer.spelled(nodes, children)])
        if run.best and run.first_leaf is None:
            run.first_leaf = run.iterations
        if not paper:
            bound = min(bound, explorer.tenth(run.best))
        for nodes in _read(explorer, taken):
            frontier.add(nodes, bound)
            nodes.following = NO_COSTS
    # The search may have found fillings of the beam search again.
    run.best = distinct(known, run.best)
    left = frontier.cheapest() + explorer.prefix_cost
    run.proven = sum(guess.score <= left for guess in run.best)
    return run


def _read(explorer: SearchTree, taken: list[tuple[Nodes, Children]]) -> Iterator[Nodes]:
    """Run the model on the children that can continue, depth by depth; batches of one depth are read together."""
    depths: dict[int, list[tuple[Nodes, Children]]] = {}
    for nodes, children in taken:
        going = children[explorer.paths.goes_on(children.states)]
        if len(going):
            depths.setdefault(nodes.paths.shape[1], []).append((nodes, going))
    for depth, parts in sorted(depths.items()):
        joined = Children.joined(children for _, children in parts)
        which = np.repeat(np.arange(len(parts)), [len(children) for _, children in parts])
        size = explorer.rows(depth + 1)
        for first in range(0, len(joined), size):
            part = slice(first, first + size)
            used, batch_index = np.unique(which[part], return_inverse=True)
            yield explorer.read([parts[n][0] for n in used], batch_index, joined[part])
