"""How many fillings are as cheap as the secret, exactly: by pruned search.

Costs only grow along a path, so every partial filling dearer than the secret is cut; counting what is left
gives the exact rank (The Secret Sharer, Definition 2) without enumerating R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, mask_of
from leakage_tasks.attacks.finding import GUESSES, Guess
from leakage_tasks.core.arrays import IntArray


@dataclass(frozen=True)
class RankCount:
    """Fillings other than the secret that cost no more than it, and the cheapest of all found."""

    others: int
    cheapest: tuple[Guess, ...]


def count_exactly(explorer: SearchTree, secret: Sequence[int], bound: float, budget: int) -> RankCount | None:
    """Count by pruned search, or None once it takes more than ``budget`` sequences."""
    limit = explorer.calls + budget
    others, pending = 0, 0
    best: list[Guess] = []
    waiting: list[tuple[Nodes, Children]] = []
    nodes = explorer.root
    while True:
        children = explorer.children(nodes, bound)
        others += int(ends_by_parent(explorer, nodes, children, secret).sum())
        best = cheapest(explorer, nodes, children, best)
        onward = children[explorer.paths.goes_on(children.states)]
        waiting += [(nodes, onward[part]) for part in explorer.parts(nodes, onward)]
        pending += len(onward)
        if explorer.calls + pending > limit:
            return None
        if not waiting:
            return RankCount(others, tuple(best))
        pending -= len(waiting[-1][1])
        nodes = explorer.read_part(*waiting.pop())


def ends_by_parent(explorer: SearchTree, nodes: Nodes, children: Children, secret: Sequence[int]) -> IntArray:
    """Fillings among each node's children, the secret itself excepted, shape ``[len(nodes)]``."""
    ending = children[explorer.paths.ends(children.states)]
    if not len(ending):
        return np.zeros(len(nodes), dtype=np.int64)
    paths = explorer.child_paths(nodes, ending)
    counts = explorer.paths.count(ending.states, paths)
    counts[mask_of(paths, secret)] -= 1
    return np.bincount(ending.parents, weights=counts, minlength=len(nodes)).astype(np.int64)


def cheapest(explorer: SearchTree, nodes: Nodes, children: Children, best: list[Guess]) -> list[Guess]:
    """The cheapest fillings among ``best`` and the children."""
    ending = children[explorer.paths.ends(children.states)]
    ending = ending[np.argsort(ending.costs, kind="stable")]
    # Many at once, since telling what a path spells takes long; more than ten, since some spell no filling.
    for first in range(0, len(ending), 4 * GUESSES):
        worst = best[-1].score - explorer.prefix_cost if len(best) == GUESSES else np.inf
        part = ending[first : first + 4 * GUESSES]
        part = part[part.costs < worst]
        if not len(part):
            break
        best = merge_guesses(explorer, best, explorer.spelled(nodes, part), GUESSES)
    return best


def merge_guesses(explorer: SearchTree, best: list[Guess], found: Sequence[tuple], top: int) -> list[Guess]:
    """``top`` guesses out of those had and those found, cheapest first; equal costs by their fillings."""
    new = [Guess(filling, "", explorer.prefix_cost + cost) for cost, _, fillings in found for filling in fillings]
    return sorted([*best, *new], key=lambda guess: (guess.score, guess.filling))[:top]
