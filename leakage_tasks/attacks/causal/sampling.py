"""Extraction by sampling: fillings drawn from the model itself, the cheapest kept."""

from __future__ import annotations

from dataclasses import dataclass, field

from leakage_tasks.attacks.causal.random_descents import Visit, descend
from leakage_tasks.attacks.causal.rank_counting import cheapest
from leakage_tasks.attacks.causal.sampled import DRAWS
from leakage_tasks.attacks.causal.search_result import NO_LOGITS, distinct, search_result
from leakage_tasks.attacks.causal.search_tree import SearchTree, mask_of
from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.attacks.finding import AttackResult, Guess
from leakage_tasks.attacks.registry import AttackOption, AttackRequest, register
from leakage_tasks.core.errors import OptionError
from leakage_tasks.targets.protocols import PredictsNextToken

FOUND = "found"
MOST_DRAWS = 1_000_000
"""Where draws cost no further calls, as in spaces of one token, these are enough."""
UNTIL = AttackOption(
    "until",
    str,
    "spent",
    f"when sampling ends: with its draws (spent), or only once the secret was drawn ({FOUND}), which an audit alone "
    "can tell",
    choices=("spent", FOUND),
)


@register("sampling", "extraction", PredictsNextToken, auto=5, remedy=NO_LOGITS, settings=(DRAWS, UNTIL))
def sampling(order: AttackRequest) -> AttackResult:
    """The ten cheapest of the fillings drawn from the model (The Secret Sharer, section 5.2), none of them certain.

    At each place a token is drawn among those the template allows, in proportion to the model's probabilities; what
    only one token can follow is followed by it. Equal beginnings are read once. No more than ``draws`` are made, and no
    more than ``budget`` sequences scored; ``until=found`` goes on, ``draws`` at a time, until the secret has been
    drawn, the budget is spent or there were a million. Each draw depends on the seed and its own number alone.
    Raises OptionError where ``budget`` does not pay for the longest draw there can be, and for ``until=found`` on a
    natural secret: whoever made the same draws would know by the end of them what it is.
    """
    if order.settings[UNTIL.name] == FOUND and order.canary.kind == NATURAL:
        raise OptionError(
            f"canary {order.canary.id!r} is natural, and until={FOUND} would tell which draw it is: leave it out"
        )
    explorer = SearchTree(order.target, order.canary.attack_space)
    run = _Run(explorer, explorer.path_of(order.canary.secret), order.seed)
    limit, draws = explorer.calls + order.budget, order.settings[DRAWS.name]
    most = MOST_DRAWS if order.settings[UNTIL.name] == FOUND else draws
    # The last token of a draw is not read.
    longest = max(1, explorer.paths.longest - 1)
    while run.draws < most and not (most > draws and run.found_at):
        affordable = (limit - explorer.calls) // longest
        if affordable < 1:
            break
        run.draw(min(draws, most - run.draws, affordable))
    if not run.draws:
        raise OptionError(
            f"canary {order.canary.id!r}: budget={order.budget} does not pay for one draw: raise it to {longest}"
        )
    return search_result(order, explorer, run.best, draws=run.draws, found_at=run.found_at)


@dataclass
class _Run:
    """Draws so far: their number, the cheapest of them, which was the first to give the secret (from 1)."""

    explorer: SearchTree
    secret: tuple[int, ...]
    seed: str
    draws: int = 0
    found_at: int | None = None
    best: list[Guess] = field(default_factory=list)

    def draw(self, number: int) -> None:
        """Make ``number`` draws more."""
        best: list[Guess] = []
        for visit in descend(self.explorer, range(self.draws, self.draws + number), self.seed):
            best = cheapest(self.explorer, visit.nodes, visit.taken, best)
            self._look_for_the_secret(visit)
        self.best = distinct(self.best, best)
        self.draws += number

    def _look_for_the_secret(self, visit: Visit) -> None:
        hit = mask_of(self.explorer.child_paths(visit.nodes, visit.taken), self.secret)
        if hit.any():
            first = self.draws + 1 + int(visit.goers[hit[visit.place]].min())
            self.found_at = min(first, self.found_at or first)
