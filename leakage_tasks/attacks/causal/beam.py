"""Extraction by beam search, which keeps the cheapest partial fillings of each length. With width 1 it is greedy
search."""

from __future__ import annotations

import numpy as np

from leakage_tasks.attacks.causal.search_tree import NO_COSTS, NO_LOGITS, Children, Nodes, SearchTree
from leakage_tasks.attacks.causal.text_sampling import longest, opening, read_slots
from leakage_tasks.attacks.finding import AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.protocols import CompletesText, PredictsNextToken

BEAM = 16
WIDTH = Option("width", int, BEAM, "number of partial fillings of each length that a beam search keeps", minimum=1)


@register("beam", "extraction", PredictsNextToken, auto=5, remedy=NO_LOGITS, options=(WIDTH,))
def beam(request: AttackRequest) -> AttackResult:
    """Return up to ten fillings by beam search, without proof that they are the best (The Secret Sharer, section 5.3).

    The search loses a secret if its beginning is not among the ``width`` cheapest of its length. When ``budget``
    sequences are spent, it returns the best fillings so far.
    """
    explorer = SearchTree(request.target, request.canary.attack_space)
    explorer.path_of(request.canary.secret)
    best = beam_search(explorer, request.values[WIDTH.name], explorer.calls + request.budget)
    return explorer.result(request.canary.secret, best)


def beam_search(explorer: SearchTree, width: int, limit: int) -> list[Guess]:
    """Return up to ten fillings. Keep the ``width`` cheapest nodes per level; stop after ``limit`` model calls in
    total."""
    children = explorer.children(explorer.root)
    best = explorer.cheapest(explorer.root, children, [])
    level = _Level(explorer, width)
    level.add(explorer.root, children)
    while level.batches and explorer.calls < limit:
        level.cut(min(width, limit - explorer.calls))
        below = _Level(explorer, width)
        for above, chosen in level.batches:
            for part in explorer.parts(above, chosen):
                nodes = explorer.read_part(above, chosen[part])
                children = explorer.children(nodes)
                best = explorer.cheapest(nodes, children, best)
                below.add(nodes, children)
                nodes.following = NO_COSTS
        level = below
    return best


class _Level:
    """Children of one depth that the search can extend, in order of arrival; at most twice ``width`` of them are
    kept."""

    def __init__(self, explorer: SearchTree, width: int) -> None:
        self.batches: list[tuple[Nodes, Children]] = []
        self._paths, self._width = explorer.paths, width
        self._bound = np.inf

    def __len__(self) -> int:
        return sum(len(children) for _, children in self.batches)

    def add(self, nodes: Nodes, children: Children) -> None:
        """Add the children of a batch that may be among the ``width`` cheapest."""
        children = children[children.costs <= self._bound]
        children = children[self._paths.goes_on(children.states)]
        if len(children):
            self.batches.append((nodes, children))
        if len(self) > 2 * self._width:
            self.cut(self._width)

    def cut(self, most: int) -> None:
        """Keep the ``most`` cheapest children; ties go to the earlier child."""
        if len(self) <= most:
            return
        costs = np.concatenate([children.costs for _, children in self.batches])
        chosen = np.zeros(len(costs), dtype=bool)
        chosen[np.argsort(costs, kind="stable")[:most]] = True
        self._bound = costs[chosen].max()
        ends = np.cumsum([len(children) for _, children in self.batches])
        parts = zip(self.batches, np.split(chosen, ends[:-1]), strict=True)
        self.batches = [(nodes, children[part]) for (nodes, children), part in parts if part.any()]


NO_TEXT = "choose a model that generates text or has logits"


@register("greedy", "extraction", PredictsNextToken, CompletesText, auto=4, remedy=NO_TEXT)
def greedy(request: AttackRequest) -> AttackResult:
    """Take the likeliest allowed token at each step; a model that only generates text continues the text itself."""
    if not isinstance(request.target, PredictsNextToken):
        return _complete_text(request)
    explorer = SearchTree(request.target, request.canary.attack_space)
    limit, width = explorer.calls + request.budget, 1
    best: list[Guess] = []
    # The likeliest tokens may spell no filling, if they are not its canonical tokens: then widen the beam.
    while not best and width <= BEAM:
        best = beam_search(explorer, width, limit)[:1]
        width *= 4
    return explorer.result(request.canary.secret, best)


def _complete_text(request: AttackRequest) -> AttackResult:
    """Return the model's own continuation of the text before the first slot, split into slots.

    A slot counts as wrong if the continuation omits it or fills it with text that is not in its alphabet.
    """
    space, secret = request.canary.attack_space, request.canary.secret
    values = read_slots(space, request.target.complete(opening(space, "greedy"), longest(space)))
    right = tuple(left == true for left, true in zip(values, secret, strict=True))
    written: AttackResult = {"correct": right, "place": 1 if all(right) else None, "model_calls": 1}
    written["extra"] = {"nodes": 0, "written": list(values)}
    if not all(values):
        return written
    try:
        score = float(request.target.log_perplexity([space.fill(values)])[0])
    except TargetError:
        # The model only generates text, so its guess has no score.
        return written
    guess = Guess(values, space.fill(values), score)
    return {**grade_guesses([guess], secret), "model_calls": 2, "extra": {"nodes": 1}}
