"""Extraction by beam search: the cheapest partial fillings of each length, and no others."""

from __future__ import annotations

import numpy as np

from leakage_tasks.attacks.causal.rank_counting import cheapest
from leakage_tasks.attacks.causal.search_result import NO_LOGITS, search_result
from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree
from leakage_tasks.attacks.finding import AttackResult, Guess
from leakage_tasks.attacks.registry import AttackOption, AttackRequest, register
from leakage_tasks.targets.protocols import PredictsNextToken

BEAM = 16
WIDTH = AttackOption("width", int, BEAM, "how many partial fillings of each length a beam search goes on with", least=1)


@register("beam", "extraction", PredictsNextToken, auto=4, remedy=NO_LOGITS, settings=(WIDTH,))
def beam(order: AttackRequest) -> AttackResult:
    """Up to ten fillings by beam search, none of them certain (The Secret Sharer, section 5.3).

    A secret is lost once its beginning is not among the ``width`` cheapest of its length. When ``budget`` sequences
    are spent, the best fillings so far are returned.
    """
    explorer = SearchTree(order.target, order.canary.attack_space)
    explorer.path_of(order.canary.secret)
    return search_result(
        order, explorer, beam_search(explorer, order.settings[WIDTH.name], explorer.calls + order.budget)
    )


def beam_search(explorer: SearchTree, width: int, limit: int) -> list[Guess]:
    """Up to ten fillings by beam search, keeping the ``width`` cheapest nodes a level, up to ``limit`` calls in all."""
    children = explorer.children(explorer.root)
    best = cheapest(explorer, explorer.root, children, [])
    level = _Level(explorer, width)
    level.add(explorer.root, children)
    while level.batches and explorer.calls < limit:
        level.cut(min(width, limit - explorer.calls))
        below = _Level(explorer, width)
        for above, chosen in level.batches:
            for part in explorer.parts(above, chosen):
                nodes = explorer.read_part(above, chosen[part])
                children = explorer.children(nodes)
                best = cheapest(explorer, nodes, children, best)
                below.add(nodes, children)
                explorer.keep(nodes)
        level = below
    return best


class _Level:
    """Children of one depth that go on, in the order they were met; at most twice ``width`` of them are held."""

    def __init__(self, explorer: SearchTree, width: int) -> None:
        self.batches: list[tuple[Nodes, Children]] = []
        self._paths, self._width = explorer.paths, width
        self._bound = np.inf

    def __len__(self) -> int:
        return sum(len(children) for _, children in self.batches)

    def add(self, nodes: Nodes, children: Children) -> None:
        """Put in the children of a batch that may be among the ``width`` cheapest."""
        children = children[children.costs <= self._bound]
        children = children[self._paths.goes_on(children.states)]
        if len(children):
            self.batches.append((nodes, children))
        if len(self) > 2 * self._width:
            self.cut(self._width)

    def cut(self, most: int) -> None:
        """Keep the ``most`` cheapest; of those that cost the same, the first."""
        if len(self) <= most:
            return
        costs = np.concatenate([children.costs for _, children in self.batches])
        chosen = np.zeros(len(costs), dtype=bool)
        chosen[np.argsort(costs, kind="stable")[:most]] = True
        self._bound = costs[chosen].max()
        ends = np.cumsum([len(children) for _, children in self.batches])
        parts = zip(self.batches, np.split(chosen, ends[:-1]), strict=True)
        self.batches = [(nodes, children[part]) for (nodes, children), part in parts if part.any()]
