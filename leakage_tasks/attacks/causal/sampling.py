"""Extraction by sampling: draw fillings from the model and keep the cheapest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from leakage_tasks.attacks.causal.random_descents import Visit, descend
from leakage_tasks.attacks.causal.search_tree import NO_LOGITS, SearchTree, distinct, mask_of
from leakage_tasks.attacks.causal.whole_texts import DRAWS
from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import AttackResult, Guess
from leakage_tasks.attacks.registry import AttackRequest, register
from leakage_tasks.core.errors import OptionError
from leakage_tasks.core.option import Option
from leakage_tasks.targets.calls import Calls
from leakage_tasks.targets.protocols import PredictsNextToken

FOUND = "found"
MOST_DRAWS = 1_000_000
"""Maximum number of draws if further draws need no model calls, as in spaces of one token."""
UNTIL = Option(
    "until",
    str,
    "spent",
    f"when sampling ends: after its draws (spent), or when it has drawn the secret ({FOUND}), which only an audit can "
    "check",
    choices=("spent", FOUND),
)


def _most_calls(request: AttackRequest) -> Calls:
    """Return the most calls: the budget, or fewer if the draws, or readings of a small tree, cost less.

    Draws with a common beginning leave budget for further groups of draws; each group reads a node at most once.
    """
    paths, draws = request.target.paths(request.canary.attack_space), request.values[DRAWS.name]
    until_found = request.values[UNTIL.name] == FOUND
    longest, half, groups = max(paths.longest - 1, 1), request.budget // 2, 1
    at_once = min(draws * longest, request.budget)
    if until_found or draws * longest > request.budget:
        # Groups have at least this many draws as long as half of the budget is left.
        fewest = min(draws, half // longest)
        groups = math.ceil((MOST_DRAWS if until_found else draws) / max(fewest, 1))
    nodes = paths.inner_nodes(at_once)
    most = groups * (at_once if nodes is None else nodes)
    most = most if groups == 1 or most <= half else request.budget
    return Calls(steps=most, rounds=most)


@register(
    "sample-tokens",
    "extraction",
    PredictsNextToken,
    auto=6,
    remedy=NO_LOGITS,
    options=(DRAWS, UNTIL),
    classes=["regurgitation"],
    most_calls=_most_calls,
)
def sample_tokens(request: AttackRequest) -> AttackResult:
    """Return the ten cheapest of the fillings drawn from the model (The Secret Sharer, section 5.2).

    At each position a token is drawn among the tokens that the template allows, in proportion to the model's
    probabilities. Equal beginnings are read once. The attack makes at most ``draws`` draws and scores at most
    ``budget`` sequences. With ``until=found`` it continues, ``draws`` at a time, until it has drawn the secret, spent
    the budget or made a million draws. Each draw depends on the seed and its own number alone. Raises OptionError if
    ``budget`` does not pay for the longest possible draw, and for ``until=found`` on a natural secret: a reader who
    repeats the draws would know that the last draw is the secret.
    """
    if request.values[UNTIL.name] == FOUND and request.canary.kind == NATURAL:
        raise OptionError(
            f"canary {request.canary.id!r} is natural, and until={FOUND} would reveal which draw it is: leave it out"
        )
    explorer = SearchTree(request.target, request.canary.attack_space)
    secret = explorer.path_of(request.canary.secret)
    limit, at_once = explorer.calls + request.budget, request.values[DRAWS.name]
    most = MOST_DRAWS if request.values[UNTIL.name] == FOUND else at_once
    # The last token of a draw is not read.
    longest = max(1, explorer.paths.longest - 1)
    draws, found_at = 0, None
    best: list[Guess] = []
    while draws < most and not (most > at_once and found_at):
        number = min(at_once, most - draws, (limit - explorer.calls) // longest)
        if number < 1:
            break
        drawn = _Drawn(explorer, secret, draws, found_at=found_at)
        descend(explorer, range(draws, draws + number), request.seed, drawn.add)
        best, found_at = distinct(best, drawn.best), drawn.found_at
        draws += number
    if not draws:
        raise OptionError(
            f"canary {request.canary.id!r}: budget={request.budget} is too small for one draw: raise it to {longest}"
        )
    return explorer.result(request.canary.secret, best, draws=draws, found_at=found_at)


@dataclass
class _Drawn:
    """The ten cheapest fillings of some draws, and the number of the first draw of the secret, from 1."""

    explorer: SearchTree
    secret: Sequence[int]
    before: int
    """Number of earlier draws."""
    best: list[Guess] = field(default_factory=list)
    found_at: int | None = None

    def add(self, visit: Visit) -> None:
        """Add the fillings that are drawn at a visit."""
        self.best = self.explorer.cheapest(visit.nodes, visit.taken, self.best)
        hit = mask_of(self.explorer.child_paths(visit.nodes, visit.taken), self.secret)
        if hit.any():
            first = self.before + 1 + int(visit.goers[hit[visit.taken_row]].min())
            self.found_at = min(first, self.found_at or first)
