"""The rank of a secret within a budget: random descents where they are enough, a thinned tree where they are not.

How many draws are made, what they cost, and what is said where they are too few. Draws that decide anything, whether a
count is made, how further draws lean, how many there are and what a tree keeps, never enter the estimate. It may be
looked at twice; the levels of both intervals together keep the error at 5 %. Where a large budget has the tree thinned
a second time, or whole texts are read in the end, there is a third look, of 1 or 5 % more.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from leakage_tasks.attacks.causal import random_descents
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.random_descents import PolicyMixture, adaptive_mixture, model_mixture
from leakage_tasks.attacks.causal.rank_draws import (
    LEAST_EFFECTIVE,
    LEVELS,
    TURN,
    RankDraws,
    draw,
    draws_needed,
    interval_of,
    summary,
)
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.thinned_tree import REPETITIONS, ThinnedCount, thinned_count
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.core.option import Option
from leakage_tasks.stats.intervals import at_most

PILOT = 48
"""Draws of each of the pilots, at most."""
LEAST = 64
"""Fewer draws than that are not made: whole texts, a sequence each, tell more."""
MOST = 200_000
HARD = 8.0
"""Effective sample size of a pilot below which its draws are of a few that happened to matter."""
LEAST_COUNTED = 1.5
"""The least of a thinned tree's count; its interval is the wider, the less there is."""
USUAL_KEPT = 64
"""How many of a level a tree keeps first where the budget pays for many times as many."""
THINNED = 0.9
"""Share of what is left of the budget that the tree may take; the rest is for whole texts where it tells too little."""
PRECISION = Option(
    "precision",
    float,
    0.25,
    "bits: half the width that the 95 % interval of an estimated exposure is to have, if the budget pays for it",
    minimum=0.01,
)


class RankEstimate:
    """Draws for one secret, within ``budget`` sequences of the explorer's in all.

    ``margin`` is by how many bits rounding may move the secret's cost. The ends of the interval are then those of a
    secret that costs a margin less, and a margin more.
    """

    def __init__(
        self,
        explorer: SearchTree,
        secret: tuple[int, ...],
        bound: float,
        seed: str,
        budget: int,
        precision: float,
        margin: float = 0.0,
    ) -> None:
        self._explorer, self._secret, self._bound, self._seed = explorer, secret, bound, seed
        self._budget, self._precision, self._margin = budget, precision, margin
        self._lookahead = Lookahead(explorer, bound)
        self._pilots: list[RankDraws] = []
        self._calls_a_draw = math.inf

    def explore(self) -> float:
        """Make the first pilot; the nodes an exact count would read, infinitely many where no draw is affordable."""
        found = self._draw(self._part(4), 0, random_descents.EXPLORING, self._lookahead)
        self._pilots = [found]
        return float(found.nodes.mean()) if len(found.nodes) else math.inf

    def result(self) -> AttackResult | None:
        """The rank's fields of a finding, or None where the budget pays for too few draws to say anything.

        Where it does not pay for as many as an estimate needs, the tree is thinned instead.
        """
        self.aim()
        if self._likely_affordable < LEAST:
            return None
        wanted, hard = draws_needed(self._pilots[-1], self._precision, LEVELS[0]), self._pilots[-1].effective < HARD
        if hard:
            wanted = min(wanted, max(LEAST, self._likely_affordable // 4))
        draws, size = self.drawn(wanted, 4, self._lookahead if hard else None), self._explorer.space.size
        if draws is None:
            return None
        if draws.effective >= LEAST_EFFECTIVE and self._is_narrow(*interval_of(draws, LEVELS[0], margin=False)):
            return summary(draws, LEVELS[0], size)
        if hard or draws.effective < LEAST_EFFECTIVE:
            return self._thinned(summary(draws, LEVELS[0], size))
        again = min(draws_needed(draws, self._precision, LEVELS[1]), self._likely_affordable)
        more = self.drawn(again, 5) if again >= 2 * len(draws.others) else None
        return summary(draws, LEVELS[0], size) if more is None else summary(more, LEVELS[1], size)

    def _is_narrow(self, low: float, high: float) -> bool:
        """Whether half the width of an interval of the rank's logarithm is no more than asked for."""
        return math.log2(high / low) / 2 <= self._precision

    def _thinned(self, found: AttackResult) -> AttackResult | None:
        """The rank by thinning the tree; where that tells too little, what draws ``found`` or None for whole texts."""
        self._lookahead.settle()
        size, count = self._explorer.space.size, self._counted()
        if not _tells(count):
            left = self._budget - self._explorer.calls - 1
            return None if left > 0 and size * at_most(0, left, LEVELS[1]) < found["rank_high"] else found
        low, high = (min(1 + end, size) for end in count.interval(LEVELS[1]))
        rank = min(1 + float(count.others.mean()), size)
        extra = {"repetitions": len(count.others), "kept": count.kept, "effective_draws": count.effective}
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}

    def _counted(self) -> ThinnedCount | None:
        """The count of a tree that takes what is left of the budget; of a large one where a part is not enough."""
        usual = REPETITIONS * USUAL_KEPT * max(1, self._explorer.paths.longest - 1)
        if self._for_tree <= 4 * usual:
            return self._tree(self._for_tree, 6)
        found = self._tree(usual, 6)
        if _tells(found) and self._is_narrow(*(1 + end for end in found.own_interval(LEVELS[1]))):
            return found
        return self._tree(self._for_tree, 7)

    @property
    def _for_tree(self) -> int:
        """Sequences that a tree may take."""
        return int((self._budget - self._explorer.calls) * THINNED)

    def _tree(self, calls: int, turn: int) -> ThinnedCount | None:
        seed = f"{self._seed}:{turn}"
        bound = self._bound
        return thinned_count(self._explorer, self._secret, bound, self._lookahead, calls, seed, self._margin)

    def aim(self) -> None:
        """Learn what is to come where no bound ends a draw; then make pilots of draws that go by what was learnt."""
        exploring, first = random_descents.EXPLORING, range(self._part())
        for visit in random_descents.descend(self._explorer, first, f"{self._seed}:1", mixture=exploring):
            self._lookahead.learn_from(visit)
        self._lookahead.settle()
        for turn, teach in ((2, self._lookahead), (3, None)):
            before, number = self._explorer.calls, self._part()
            self._pilots.append(self._draw(number, turn, adaptive_mixture(self._lookahead), teach))
            self._calls_a_draw = (self._explorer.calls - before) / number if number else math.inf
            if teach is not None:
                teach.settle()

    def _part(self, share: int = 10) -> int:
        """Draws of a pilot: few enough to leave the larger part of the budget to the estimate."""
        return min(PILOT, self._affordable // share)

    def drawn(self, wanted: int, turn: int, teach: Lookahead | None = None) -> RankDraws | None:
        """So many fresh draws, or as many as the budget pays for, in parts of which it certainly does; None for none.

        ``turn`` makes them others than those of another call; ``teach`` learns from what is read.
        """
        mixture = adaptive_mixture(self._lookahead) if any(pilot.seen for pilot in self._pilots) else model_mixture()
        made: list[RankDraws] = []
        wanted = min(max(wanted, LEAST), MOST)
        while wanted > 0 and self._affordable >= TURN:
            number = min(wanted, self._affordable // TURN * TURN)
            made.append(self._draw(number, f"{turn}:{len(made)}", mixture, teach))
            wanted -= number
        return sum(made[1:], made[0]) if made else None

    def _draw(self, number: int, turn: int | str, mixture: PolicyMixture, teach: Lookahead | None = None) -> RankDraws:
        seed = f"{self._seed}:{turn}"
        return draw(self._explorer, self._secret, self._bound, number, seed, mixture, teach, self._margin)

    @property
    def _affordable(self) -> int:
        """Draws that the budget certainly pays for; the last token of a draw is not read."""
        return max(0, self._budget - self._explorer.calls) // max(1, self._explorer.paths.longest - 1)

    @property
    def _likely_affordable(self) -> int:
        """Draws that the budget pays for if they cost what the pilot's did; of more draws more share nodes."""
        return int(max(0, self._budget - self._explorer.calls) / max(self._calls_a_draw, 1e-9))


def _tells(count: ThinnedCount | None) -> TypeGuard[ThinnedCount]:
    """Whether a count is one, with enough behind it for an interval."""
    return count is not None and count.effective >= LEAST_COUNTED
