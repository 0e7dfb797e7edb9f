"""Extraction by beam search, which keeps the cheapest partial fillings of each length. With width 1 it is greedy
search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leakage_tasks.attacks.causal.forest import Forest, in_forest
from leakage_tasks.attacks.causal.nodes import NO_COSTS, Children, Nodes
from leakage_tasks.attacks.causal.search_tree import NO_LOGITS, SearchTree
from leakage_tasks.attacks.causal.text_sampling import longest, opening, read_filling
from leakage_tasks.attacks.finding import AttackResult, Guess, grade_guesses
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.core.errors import TargetError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import CompletesText, PredictsNextToken

BEAM = 16
WIDTH = Option("width", int, BEAM, "number of partial fillings of each length that a beam search keeps", minimum=1)


def most_of_beam(request: AttackRequest) -> Calls:
    """Return the most calls of a beam search with the attack's ``width``."""
    return _most(request, request.values[WIDTH.name])


def _most(request: AttackRequest, *widths: int) -> Calls:
    """Return the most calls of beam searches of some widths. The last token of a path is not read."""
    depth = max(request.target.paths(request.canary.attack_space).longest - 1, 0)
    return Calls(steps=min(request.budget, sum(widths) * depth), rounds=len(widths) * depth)


@register(
    "beam",
    "extraction",
    PredictsNextToken,
    auto=5,
    remedy=NO_LOGITS,
    options=(WIDTH,),
    most_calls=most_of_beam,
)
def beam(request: AttackRequest) -> AttackResult:
    """Return up to ten fillings by beam search, without proof that they are the best (The Secret Sharer, section 5.3).

    The search loses a secret if its beginning is not among the ``width`` cheapest of its length. When ``budget``
    sequences are spent, it returns the best fillings so far.
    """
    explorer = SearchTree(request.target, request.canary.attack_space)
    explorer.path_of(request.canary.secret)
    best = beam_search(explorer, request.values[WIDTH.name], explorer.calls + request.budget)
    return explorer.result(request.canary.secret, best)


def beam_search(explorer: SearchTree, width: int, limit: int, without_choice: int = 0) -> list[Guess]:
    """Return up to ten fillings. Keep the ``width`` cheapest nodes per level; stop after ``limit`` model calls in
    total.

    Nodes that only one token may follow are kept too, if they are among the ``without_choice`` cheapest of a level: the
    text after the last slot must not reduce the number of guesses.
    """
    return in_forest(_beams, explorer, (width, limit, without_choice), width)


def _beams(forest: Forest, requests: Sequence[tuple[int, int, int]]) -> list[list[Guess]]:
    """Run a beam search in each tree, of a width, up to a total number of model calls, and with a number of nodes
    without choice."""
    widths, limits, without_choice = np.array(requests).T
    best: list[list[Guess]] = [[] for _ in requests]
    level = [(forest.root, _children(forest, forest.root, best))]
    while level:
        left = limits - forest.spent
        level = _cheapest(forest, level, np.clip(left, 0, widths), np.clip(left, 0, without_choice))
        below: list[tuple[Nodes, Children]] = []
        for above, chosen in level:
            for part in forest.parts(above, chosen):
                nodes = forest.read_part(above, chosen[part])
                below.append((nodes, _children(forest, nodes, best)))
                nodes.following = NO_COSTS
                if len(below) > 1:
                    below = _cheapest(forest, below, widths, without_choice)
        level = below
    return best


def _children(forest: Forest, nodes: Nodes, best: list[list[Guess]]) -> Children:
    """Return the children that a token may follow. Add completed fillings to the ``best`` guesses of their tree."""
    children = forest.children(nodes)
    forest.add_guesses(best, nodes, children[forest.paths.ends(children.states)])
    return children[forest.paths.goes_on(children.states)]


def _cheapest(
    forest: Forest, level: Sequence[tuple[Nodes, Children]], most: IntArray, without_choice: IntArray
) -> list[tuple[Nodes, Children]]:
    """Keep the ``most`` cheapest children of each tree, and children that only one token may follow if they are among
    the ``without_choice`` cheapest. Ties go to the earlier child."""
    costs = np.concatenate([children.costs for _, children in level])
    trees = np.concatenate([forest.trees_of(nodes, children) for nodes, children in level])
    order = np.argsort(trees, kind="stable")
    costs, trees = costs[order], trees[order]
    chosen = np.zeros(len(costs), dtype=bool)
    chosen[order[forest.first_of_each(costs, trees, most)]] = True
    if (without_choice > most).any():
        more = order[forest.first_of_each(costs, trees, without_choice)]
        states = np.concatenate([children.states for _, children in level])[more]
        chosen[more[~forest.has_choice(states)]] = True
    ends = np.cumsum([len(children) for _, children in level])
    parts = zip(level, np.split(chosen, ends[:-1]), strict=True)
    return [(nodes, children[part]) for (nodes, children), part in parts if part.any()]


NO_TEXT = "choose a model that generates text or has logits"
WIDTHS = (1, 4, BEAM)
"""Beam widths of the greedy search, tried until a filling is found. The likeliest tokens may spell no filling, if they
are not its canonical tokens."""


def _most_of_greedy(request: AttackRequest) -> Calls:
    if isinstance(request.target, PredictsNextToken):
        return _most(request, *WIDTHS)
    # The continuation, token by token, and its score.
    tokens = longest(request.canary.attack_space)
    return Calls(texts=1, steps=tokens, rounds=tokens + 1)


@register(
    "greedy",
    "extraction",
    PredictsNextToken,
    CompletesText,
    auto=4,
    remedy=NO_TEXT,
    classes=["regurgitation"],
    most_calls=_most_of_greedy,
)
def greedy(request: AttackRequest) -> AttackResult:
    """Take the likeliest allowed token at each step; a model that only generates text continues the text itself."""
    if not isinstance(request.target, PredictsNextToken):
        return _complete_text(request)
    explorer = SearchTree(request.target, request.canary.attack_space)
    limit = explorer.calls + request.budget
    best: list[Guess] = []
    for width in WIDTHS:
        best = best or beam_search(explorer, width, limit)[:1]
    return explorer.result(request.canary.secret, best)


def _complete_text(request: AttackRequest) -> AttackResult:
    """Return the model's own continuation of the text before the first slot, split into slots.

    A slot counts as wrong if the continuation omits it or fills it with text that is not in its alphabet.
    """
    space, secret = request.canary.attack_space, request.canary.secret
    values = read_filling(space, request.target.complete(opening(space, "greedy"), longest(space)), secret)
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
