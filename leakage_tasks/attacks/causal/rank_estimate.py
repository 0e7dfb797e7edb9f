"""The rank of a secret within a budget: by random descents if they are enough, else by a thinned tree.

This module decides how many draws to make, and what to do if they are too few. Pilot draws decide whether to count,
which proposals to use and which nodes the tree keeps; they do not enter the estimate. The draws that follow are
increased by half until their interval, of level :data:`~leakage_tasks.stats.intervals.ENDING_LEVEL`, has the requested
width. ``benchmarks/coverage.py`` counts how many intervals hold.
"""

from __future__ import annotations

import math
from typing import TypeGuard

from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.proposals import (
    EXPLORING,
    ProposalMixture,
    adaptive_mixture,
    learned_mixture,
    model_mixture,
)
from leakage_tasks.attacks.causal.random_descents import Visit, descend
from leakage_tasks.attacks.causal.rank_draws import (
    DRAWS_MULTIPLE,
    LEAST_EFFECTIVE,
    RankDraws,
    draw,
    draws_needed,
    interval_of,
    summary,
)
from leakage_tasks.attacks.causal.secret_path import RankedSecret
from leakage_tasks.attacks.causal.thinned_tree import REPETITIONS, ThinnedCount, thinned_count
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.registry import AttackRequest
from leakage_tasks.core.option import Option
from leakage_tasks.stats.intervals import at_most

PILOT = 32
"""Maximum number of draws of each pilot."""
LEAST = 64
"""First number of draws, if the budget pays for them. With fewer, scoring whole texts (one sequence each) is more
precise."""
GROWTH = 1.5
"""Factor by which the draws are increased until they are precise."""
MOST_GROWTH = 4
"""Maximum number of draws, as a multiple of the number that the first draws show to be enough."""
MOST_WITHOUT_PILOTS = 768
MOST = 200_000
LEAST_SIZE = 8.0
"""If the effective sample size is smaller, a few draws dominate the others."""
LEAST_COUNTED = 1.5
"""Smallest accepted effective size of a thinned tree's count; the interval widens as it decreases."""
FIRST_KEPT = 64
"""Nodes per level that the first thinned tree keeps if the budget pays for several times as many."""
THINNED = 0.9
"""Share of the remaining budget for the thinned tree; the rest is for whole texts if the tree is too imprecise."""
PRECISION = Option(
    "precision",
    float,
    None,
    "target for half the width of an estimated exposure's 95 % interval, in bits; reached if the budget suffices",
    minimum=0.01,
    usual="0.25 for planted canaries, 0.5 for controls",
)
FOR_PLANTED, FOR_CONTROLS = 0.25, 0.5
"""Default precision in bits. A control contributes to a mean and a test only, which vary more than its interval."""


def precision_of(request: AttackRequest) -> float:
    """Return the precision for a canary: the user's, or the default for planted canaries or for controls."""
    precision: float | None = request.values[PRECISION.name]
    if precision is not None:
        return precision
    return FOR_PLANTED if request.canary.planted else FOR_CONTROLS


class RankEstimate:
    """Rank estimate for one secret, within a total of ``budget`` model calls of the explorer.

    If the secret has a margin, the ends of the interval are the ends for a cost that is lower, and higher, by it.
    ``lookahead`` may have learned from earlier draws.
    """

    def __init__(
        self, secret: RankedSecret, seed: str, budget: int, precision: float, lookahead: Lookahead | None = None
    ) -> None:
        self._secret, self._explorer, self._seed = secret, secret.explorer, seed
        self._budget, self._precision = budget, precision
        self._lookahead = lookahead or secret.lookahead()
        self._pilots: list[RankDraws] = []
        self._calls_a_draw = math.inf
        self._is_taught = False

    def without_pilots(self) -> AttackResult | None:
        """Make draws by the proposals of the given lookahead.

        Return None if they are too imprecise, or if the budget does not pay for them. If their effective sample size is
        not too small, they then replace the pilots.
        """
        if self._affordable < LEAST:
            return None
        mixture, before = learned_mixture(self._lookahead), self._explorer.calls
        draws = self.make_draws(LEAST, "first", mixture)
        while not self._is_precise(draws):
            number = len(draws.others)
            self._calls_a_draw, more = (self._explorer.calls - before) / number, _further(number)
            reached = min(MOST_WITHOUT_PILOTS, number + self._likely_affordable)
            if max(draws_needed(draws, self._precision), number + more) > reached or more > self._affordable:
                self._lookahead.settle()
                self._is_taught = draws.effective >= LEAST_SIZE
                self._pilots = [draws]
                return None
            draws += self.make_draws(more, f"first:{number}", mixture)
        return summary(draws, self._explorer.space.size)

    def explore(self) -> float:
        """Make the first pilot and return the expected number of nodes of an exact count.

        Return infinity if the budget pays for no draw.
        """
        if self._is_taught:
            return float(self._pilots[-1].nodes.mean())
        pilot = self.make_draws(self._part(4), "0", EXPLORING)
        self._pilots = [pilot]
        return float(pilot.nodes.mean()) if len(pilot.nodes) else math.inf

    def result(self) -> AttackResult | None:
        """Return the finding's fields about the rank; None if the budget pays for too few draws.

        If it does not pay for enough draws for an estimate, count a thinned tree instead.
        """
        if not self._is_taught and self._affordable < LEAST:
            return None
        if not self._is_taught:
            self.make_pilots()
        if self._likely_affordable < LEAST:
            return self._without_more()
        draws = self._draw_until_precise("4")
        if draws is not None and draws.seen and draws.effective < LEAST_SIZE and self._for_more >= LEAST:
            # These draws become one more pilot.
            self._lookahead.settle()
            self._pilots.append(draws)
            draws = self._draw_until_precise("5")
        if draws is None:
            return None
        by_draws = summary(draws, self._explorer.space.size)
        return by_draws if draws.effective >= LEAST_EFFECTIVE else self._estimate_by_tree(by_draws)

    def _without_more(self) -> AttackResult | None:
        """Return the estimate of the draws without pilots, which then are not used as a pilot; None if there are none,
        or if their effective sample size is too small."""
        if not self._is_taught or self._pilots[-1].effective < LEAST_EFFECTIVE:
            return None
        return summary(self._pilots[-1], self._explorer.space.size)

    def _draw_until_precise(self, stream: str) -> RankDraws | None:
        """Make draws until they are precise, or until more of them are not promising or not affordable.

        There are at most :data:`MOST_GROWTH` times as many as the first draws show to be enough. Return None if the
        budget pays for too few draws. The first draws also teach the lookahead.
        """
        mixture = self.mixture()
        draws = self._affordable_draws(LEAST, stream, mixture, teach=True)
        if draws is None:
            return None
        enough = draws_needed(draws, self._precision)
        most = min(MOST, MOST_GROWTH * enough) if draws.seen else min(enough, len(draws.others) + self._for_more)
        while not self._is_precise(draws) and self._is_promising(draws):
            number = len(draws.others)
            more = self._affordable_draws(min(_further(number), most - number), f"{stream}:{number}", mixture)
            if more is None:
                break
            draws += more
        return draws

    def _is_promising(self, draws: RankDraws) -> bool:
        """Return True if more draws that the budget pays for may reach the least effective sample size, or if none has
        found a cheap filling."""
        number, wanted = len(draws.others), LEAST_EFFECTIVE / max(draws.effective, LEAST_SIZE)
        is_enough = draws.effective >= LEAST_SIZE and number * wanted <= number + self._likely_affordable
        return is_enough or not draws.seen

    def _affordable_draws(
        self, wanted: int, stream: str, mixture: ProposalMixture, *, teach: bool = False
    ) -> RankDraws | None:
        """Make ``wanted`` draws, or as many as the budget pays for; return None if these are too few."""
        number = min(wanted, self._affordable // DRAWS_MULTIPLE * DRAWS_MULTIPLE)
        return self.make_draws(number, stream, mixture, teach=teach) if number > 0 else None

    def _is_precise(self, draws: RankDraws) -> bool:
        """Return True if the effective sample size is not too small and the interval has the requested precision."""
        return draws.effective >= LEAST_EFFECTIVE and self._is_narrow(*interval_of(draws, margin=False))

    def _is_narrow(self, low: float, high: float) -> bool:
        """Return True if half the width of the interval of log2 rank is at most the requested precision."""
        return math.log2(high / low) / 2 <= self._precision

    def _estimate_by_tree(self, by_draws: AttackResult) -> AttackResult | None:
        """Estimate the rank by a thinned tree.

        If the tree is too imprecise, return the result ``by_draws``, or None to draw uniform random fillings instead.
        """
        self._lookahead.settle()
        size, count = self._explorer.space.size, self._count_tree()
        if not _is_usable(count):
            left = self._affordable
            return None if left > 0 and size * at_most(0, left) < by_draws["rank_high"] else by_draws
        low, high = (min(1 + end, size) for end in count.interval())
        rank = min(1 + float(count.others.mean()), size)
        extra = {"repetitions": len(count.others), "kept": count.nodes_per_level, "effective_draws": count.effective}
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}

    def _count_tree(self) -> ThinnedCount | None:
        """Count a thinned tree within the remaining budget. If the budget is large, first try a smaller tree."""
        usual = REPETITIONS * FIRST_KEPT * max(1, self._explorer.paths.longest - 1)
        if self._for_tree <= 4 * usual:
            return self._tree(self._for_tree, 6)
        count = self._tree(usual, 6)
        if _is_usable(count) and self._is_narrow(*(1 + end for end in count.own_interval())):
            return count
        return self._tree(self._for_tree, 7)

    @property
    def _for_tree(self) -> int:
        """Maximum number of sequences that the model may score for a thinned tree."""
        return int((self._budget - self._explorer.calls) * THINNED)

    def _tree(self, calls: int, stream: int) -> ThinnedCount | None:
        return thinned_count(self._secret, self._lookahead, calls, f"{self._seed}:{stream}")

    def make_pilots(self) -> None:
        """Train the lookahead on draws without a cost bound, then on draws that use it as proposal."""
        explorer, first, ahead = self._explorer, range(self._part()), self._lookahead

        def learn(visit: Visit) -> None:
            ahead.learn_from(explorer, visit.nodes, visit.at)

        descend(explorer, first, f"{self._seed}:1", learn, mixture=EXPLORING)
        self._lookahead.settle()
        number, before = self._part(), explorer.calls
        self._pilots.append(self.make_draws(number, "2", adaptive_mixture(ahead), settle=True))
        self._calls_a_draw = (explorer.calls - before) / number if number else math.inf

    def _part(self, share: int = 10) -> int:
        """Return the number of draws of a pilot, which leaves most of the budget for the estimate."""
        return min(PILOT, self._affordable // share)

    def mixture(self) -> ProposalMixture:
        """Return the proposals of the draws that follow the pilots."""
        return adaptive_mixture(self._lookahead) if any(pilot.seen for pilot in self._pilots) else model_mixture()

    def make_draws(
        self, number: int, stream: str, mixture: ProposalMixture, *, teach: bool = True, settle: bool = False
    ) -> RankDraws:
        """Make draws. With ``teach`` the lookahead learns from them, with ``settle`` its predictions then change.

        ``stream`` selects the random numbers: calls with different values make different draws.
        """
        taught = self._lookahead if teach else None
        return draw(self._secret, number, f"{self._seed}:{stream}", mixture, taught, settle=settle)

    @property
    def _affordable(self) -> int:
        """Number of draws that the budget pays for in any case; the last token of a draw is not read."""
        return max(0, self._budget - self._explorer.calls) // max(1, self._explorer.paths.longest - 1)

    @property
    def _for_more(self) -> int:
        """Number of draws that leave most of the budget for a thinned tree."""
        return self._likely_affordable // 4 // DRAWS_MULTIPLE * DRAWS_MULTIPLE

    @property
    def _likely_affordable(self) -> int:
        """Number of draws that the budget pays for at the pilot's cost per draw. More draws share more nodes and cost
        less."""
        return int(max(0, self._budget - self._explorer.calls) / max(self._calls_a_draw, 1e-9))


def _is_usable(count: ThinnedCount | None) -> TypeGuard[ThinnedCount]:
    """Return True if there is a count and it is precise enough for an interval."""
    return count is not None and count.effective >= LEAST_COUNTED


def _further(number: int) -> int:
    """Return the number of draws to add to this number."""
    return math.ceil((GROWTH - 1) * number / DRAWS_MULTIPLE) * DRAWS_MULTIPLE
