"""Extraction by search: the cheapest fillings of all, found best first."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from leakage_tasks.attacks.counting import merge_guesses
from leakage_tasks.attacks.explorer import Children, Explorer, Nodes
from leakage_tasks.attacks.finding import GUESSES, Guess, marked
from leakage_tasks.attacks.registry import Order, register
from leakage_tasks.targets.protocols import PredictsNextToken

BATCH = 128
BEAM = 16


@register(
    "shortest-path",
    "extraction",
    PredictsNextToken,
    auto=1,
    remedy="use attack=brute-force on small spaces, else attack=greedy, which need no logits",
)
def shortest_path(order: Order) -> dict[str, Any]:
    """The ten cheapest fillings by best-first search over partial fillings (The Secret Sharer, section 5.4).

    Many nodes are read at once, yet the answer is certain: a filling is final once it costs no more than the
    cheapest node left. A beam search comes first; nothing dearer than its tenth filling needs to be looked at.
    When ``budget`` sequences are spent, the best fillings so far are returned; ``proven`` says how many of
    them are certain.
    """
    explorer = Explorer(order.target, order.canary.attack_space)
    explorer.path_of(order.canary.secret)
    limit = explorer.calls + order.budget
    best = beam(explorer, BEAM, limit)
    best, proven = _search(explorer, best, limit)
    return result(order, explorer, best, proven)


def result(order: Order, explorer: Explorer, best: list[Guess], proven: int) -> dict[str, Any]:
    """The fields of a finding for guesses found by search."""
    fill = order.canary.attack_space.fill
    guesses = [Guess(guess.filling, fill(guess.filling), guess.score) for guess in best]
    return {**marked(guesses, order.canary.secret), "proven": proven, "model_calls": explorer.calls}


def beam(explorer: Explorer, width: int, limit: int) -> list[Guess]:
    """Up to ten fillings by beam search, keeping the ``width`` cheapest nodes a level, up to ``limit`` calls in all."""
    best: list[Guess] = []
    level: list[Nodes] = [explorer.root]
    while level and explorer.calls < limit:
        below = [explorer.children(nodes) for nodes in level]
        for nodes, children in zip(level, below, strict=True):
            best = merge_guesses(explorer, best, explorer.spelled(nodes, children), GUESSES)
        level = list(_read_cheapest(explorer, level, below, width))
    return best


def _read_cheapest(explorer: Explorer, level: list[Nodes], below: list[Children], width: int) -> Iterator[Nodes]:
    """Read the ``width`` cheapest children that go on, over all batches of a level."""
    onward = [children[explorer.paths.goes_on(children.states)] for children in below]
    costs = np.concatenate([children.costs for children in onward])
    if len(costs) > width:
        chosen = np.zeros(len(costs), dtype=bool)
        chosen[np.argsort(costs, kind="stable")[:width]] = True
        ends = np.cumsum([len(children) for children in onward])
        onward = [children[part] for children, part in zip(onward, np.split(chosen, ends[:-1]), strict=True)]
    for nodes, children in zip(level, onward, strict=True):
        for part in explorer.parts(nodes, children):
            yield explorer.read_part(nodes, children[part])


class _Frontier:
    """Children in order of cost, cheapest first; of a batch's row only its cheapest child left is in the heap."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self._heap: list[tuple[float, int, int, int]] = []
        self._batches: dict[int, tuple[Nodes, Children]] = {}
        self._ends: dict[int, np.ndarray] = {}
        self._serial = 0

    def add(self, nodes: Nodes, bound: float) -> None:
        """Put the children of a batch in, those dearer than ``bound`` excepted."""
        children = self._explorer.children(nodes, bound)
        children = children[np.lexsort((children.columns, children.costs, children.parents))]
        if not len(children):
            return
        first = np.searchsorted(children.parents, np.arange(len(nodes) + 1))
        number, self._serial = self._serial, self._serial + 1
        self._batches[number] = (nodes, children)
        self._ends[number] = first
        for row in np.flatnonzero(first[1:] > first[:-1]):
            heapq.heappush(self._heap, (float(children.costs[first[row]]), number, int(first[row]), int(row)))

    def cheapest(self) -> float:
        """Cost of the cheapest child left."""
        return self._heap[0][0] if self._heap else np.inf

    def pop(self, most: int, bound: float) -> dict[int, list[int]]:
        """The cheapest children, up to ``most`` and below ``bound``: places within each batch."""
        taken: dict[int, list[int]] = {}
        while self._heap and most and self._heap[0][0] <= bound:
            _, number, place, row = heapq.heappop(self._heap)
            taken.setdefault(number, []).append(place)
            most -= 1
            if place + 1 < self._ends[number][row + 1]:
                cost = float(self._batches[number][1].costs[place + 1])
                heapq.heappush(self._heap, (cost, number, place + 1, row))
        return taken

    def batch(self, number: int) -> tuple[Nodes, Children]:
        """A batch and its children by number."""
        return self._batches[number]


def _search(explorer: Explorer, best: list[Guess], limit: int) -> tuple[list[Guess], int]:
    """Best-first search from the root: the cheapest fillings, and how many of them are proven."""
    # The beam's fillings turn up again; they serve as a bound until then.
    bound = best[-1].score - explorer.prefix_cost if len(best) == GUESSES else np.inf
    found: list[Guess] = []
    frontier = _Frontier(explorer)
    frontier.add(explorer.root, bound)
    while frontier.cheapest() <= bound and explorer.calls < limit:
        taken = frontier.pop(min(BATCH, limit - explorer.calls), bound)
        onward: dict[int, list[tuple[Nodes, Children]]] = {}
        for number, places in taken.items():
            nodes, children = frontier.batch(number)
            chosen = children[np.array(places)]
            found = merge_guesses(explorer, found, explorer.spelled(nodes, chosen), GUESSES)
            going = chosen[explorer.paths.goes_on(chosen.states)]
            if len(going):
                onward.setdefault(nodes.paths.shape[1], []).append((nodes, going))
        if len(found) == GUESSES:
            bound = min(bound, found[-1].score - explorer.prefix_cost)
        for depth, parts in sorted(onward.items()):
            for nodes in _read_parts(explorer, parts, depth + 1):
                explorer.keep(nodes)
                frontier.add(nodes, bound)
    left = frontier.cheapest() + explorer.prefix_cost
    merged = {guess.filling: guess for guess in [*best, *found]}
    ordered = sorted(merged.values(), key=lambda guess: (guess.score, guess.filling))[:GUESSES]
    return ordered, sum(guess.score <= left for guess in ordered)


def _read_parts(explorer: Explorer, parts: list[tuple[Nodes, Children]], depth: int) -> Iterator[Nodes]:
    """Read children of several batches of one depth together."""
    which = np.concatenate([np.full(len(children), n) for n, (_, children) in enumerate(parts)])
    joined = Children(*(np.concatenate(column) for column in zip(*(_columns(part[1]) for part in parts), strict=True)))
    size = explorer.rows(depth)
    for first in range(0, len(joined), size):
        part = slice(first, first + size)
        used, place = np.unique(which[part], return_inverse=True)
        yield explorer.read([parts[n][0] for n in used], place, joined[part])


def _columns(children: Children) -> tuple[Any, ...]:
    return children.parents, children.columns, children.states, children.costs
