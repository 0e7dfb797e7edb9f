"""The rank of a secret from random descents: unbiased, whatever the shape of the costs.

How many draws are made, what they cost, and what is said where they are too few. Draws that decide anything, whether a
count is made, how further draws lean and how many there are, never enter the estimate. It may be looked at twice; the
levels of both intervals together keep the error at 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from leakage_tasks.attacks.causal import random_descents
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.random_descents import MODEL, PolicyMixture, Visit, aimed, as_the_model
from leakage_tasks.attacks.causal.search_tree import SearchTree, mask_of
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.core.option import Option
from leakage_tasks.stats.intervals import at_most, bounded_mean_at_most, positive_mean

PILOT = 48
"""Draws of each of the pilots, at most."""
LEAST = 64
"""Fewer draws than that are not made: whole texts, a sequence each, tell more."""
MOST = 200_000
TURN = 16
"""Draws come in multiples of this, so that the last digit of a cost does not change their number."""
LEAST_EFFECTIVE = 20.0
"""An estimate behind which stands less, as an effective sample size, is given as a bound."""
LEVELS = (0.96, 0.99)
"""Of the interval at the first and the second look: an error at either comes at most once in 20."""
SAFETY = 1.3
"""Draws over those that the pilot says are needed."""
PRECISION = Option(
    "precision",
    float,
    0.25,
    "bits: half the width that the 95 % interval of an estimated exposure is to have, if the budget pays for it",
    minimum=0.01,
)


@dataclass(frozen=True)
class RankDraws:
    """Independent unbiased estimates, one a draw: fillings other than the secret as cheap as it (``others`` ``[n]``),
    and nodes to read for a count (``nodes``, of the draws that are no random fillings).

    ``seen`` different ones were met for certain. No estimate can exceed ``most``.
    """

    others: FloatArray
    nodes: FloatArray
    seen: int
    most: float

    def __add__(self, more: RankDraws) -> RankDraws:
        """All draws of two calls of :func:`draw` together."""
        others, nodes = (np.concatenate(both) for both in ((self.others, more.others), (self.nodes, more.nodes)))
        return RankDraws(others, nodes, max(self.seen, more.seen), max(self.most, more.most))

    @property
    def effective(self) -> float:
        """Effective sample size, (Σx)² / Σx² (Kish 1965): draws of equal weight that would tell as much."""
        largest = self.others.max(initial=0.0)
        if not largest:
            return 0.0
        scaled = self.others / largest
        return float(scaled.sum() ** 2 / (scaled**2).sum())


def draw(
    explorer: SearchTree,
    secret: Sequence[int],
    bound: float,
    number: int,
    seed: str,
    mixture: PolicyMixture,
    teach: Lookahead | None = None,
) -> RankDraws:
    """Draw paths among those as cheap as the secret, by the leanings of a ``mixture``.

    A filling that draws of leaning j come to with probability q_j counts 1 / Σ_j share_j·q_j when one comes to it, and
    at the last node of a path all of its fillings count with the chance that the draw had of each. Ranks from draws
    weighted by their probability are Dell'Amico and Filippone's (2015), the estimate of a tree's leaves from random
    descents is Knuth's (1975), the weights of a mixture are Veach and Guibas's (1995). Draws at one node are one node.
    Where a draw goes depends on ``seed``, its number and its depth alone. ``teach`` learns from what is read.
    """
    leanings = mixture.of(range(number))
    others, nodes, seen = np.zeros(number), np.zeros(number), 0
    leans = leanings < mixture.uniform
    alone = mixture.shares / max(mixture.shares.sum(), 1e-9)
    for visit in random_descents.descend(explorer, range(number), seed, bound=explorer.cut(bound), mixture=mixture):
        found, value = _ending(explorer, visit, secret, mixture, bound)
        seen += int(found.sum())
        _add(others, visit, leanings, mixture, value)
        with np.errstate(over="ignore", divide="ignore"):
            nodes[visit.who] += (1 / (np.exp2(visit.log2_q) @ alone))[visit.at]
        if teach is not None:
            teach.learn_from(visit)
    return RankDraws(others, nodes[leans], seen, most_per_draw(explorer, bound, mixture))


def _ending(
    explorer: SearchTree, visit: Visit, secret: Sequence[int], mixture: PolicyMixture, bound: float
) -> tuple[IntArray, FloatArray]:
    """How many fillings, the secret excepted, each child ends; and those over the mixture's probability of it."""
    children = visit.children
    ending = explorer.ending(children, bound)
    found, value = np.zeros(len(children), dtype=np.int64), np.zeros(len(children))
    if not len(ending):
        return found, value
    chosen = children[ending]
    paths = explorer.child_paths(visit.nodes, chosen)
    counts = explorer.paths.count(chosen.states, paths)
    own = np.exp2(visit.log2_q[chosen.parents]) * visit.chance[ending]
    mixed = own @ mixture.shares + mixture.share(mixture.uniform) * counts / explorer.space.size
    found[ending] = counts - mask_of(paths, secret)
    value[ending] = np.divide(found[ending], mixed, out=np.zeros(len(ending)), where=found[ending] > 0)
    return found, value


def _add(others: FloatArray, visit: Visit, leanings: IntArray, mixture: PolicyMixture, value: FloatArray) -> None:
    """Add what each descent meets at the nodes of a visit."""
    if not value.any():
        return
    each = np.zeros((len(visit.nodes), mixture.uniform + 1))
    for leaning in range(mixture.uniform):
        weights = visit.chance[:, leaning] * value
        each[:, leaning] = np.bincount(visit.children.parents, weights=weights, minlength=len(visit.nodes))
    others[visit.who] += each[visit.at, leanings[visit.who]]
    # A random filling counts where it ends, and nowhere on its way.
    others[visit.goers[visit.whole]] += value[visit.rows[visit.place[visit.whole]]]


def most_per_draw(explorer: SearchTree, bound: float, mixture: PolicyMixture) -> float:
    """What no draw's estimate can exceed, in fillings.

    A filling's probability is its share of random ones, 1/|R|, or more, and where costs are of one model that of the
    model's own probabilities, 2^−bound, or more. Where a filling's path may go on to another filling's, a draw can meet
    several.
    """
    fillings = {mixture.uniform: float(explorer.space.size)}
    if explorer.grows:
        fillings[MODEL] = float(np.exp2(min(bound, 1000.0)))
    most = [number / mixture.share(leaning) for leaning, number in fillings.items() if leaning in mixture.pattern]
    return min(most, default=math.inf) * (explorer.paths.longest if explorer.space.ends_early else 1)


class RankEstimate:
    """Draws for one secret, within ``budget`` sequences of the explorer's in all."""

    def __init__(
        self, explorer: SearchTree, secret: tuple[int, ...], bound: float, seed: str, budget: int, precision: float
    ) -> None:
        self._explorer, self._secret, self._bound, self._seed = explorer, secret, bound, seed
        self._budget, self._precision = budget, precision
        self._lookahead = Lookahead(explorer, bound)
        self._pilots: list[RankDraws] = []
        self._calls_a_draw = math.inf

    def explore(self) -> float:
        """Make the first pilot; the nodes an exact count would read, infinitely many where no draw is affordable."""
        found = self._draw(self._part(4), 0, random_descents.EXPLORING, self._lookahead)
        self._pilots = [found]
        return float(found.nodes.mean()) if len(found.nodes) else math.inf

    def result(self) -> AttackResult | None:
        """The rank's fields of a finding, or None where the budget pays for too few draws to say anything."""
        self.aim()
        if self._likely_affordable < LEAST:
            return None
        draws = self.drawn(_needed(self._pilots[-1], self._precision, LEVELS[0]), 4)
        if draws is None:
            return None
        size = self._explorer.space.size
        low, high = _interval(draws, LEVELS[0])
        # Half the width of the interval of the rank's logarithm, bits.
        if draws.effective >= LEAST_EFFECTIVE and math.log2(high / low) / 2 <= self._precision:
            return summary(draws, LEVELS[0], size)
        again = min(_needed(draws, self._precision, LEVELS[1]), self._likely_affordable)
        more = self.drawn(again, 5) if again >= 2 * len(draws.others) else None
        return summary(draws, LEVELS[0], size) if more is None else summary(more, LEVELS[1], size)

    def aim(self) -> None:
        """Learn what is to come where no bound ends a draw; then make pilots of draws that go by what was learnt."""
        exploring, first = random_descents.EXPLORING, range(self._part())
        for visit in random_descents.descend(self._explorer, first, f"{self._seed}:1", mixture=exploring):
            self._lookahead.learn_from(visit)
        self._lookahead.settle()
        for turn, teach in ((2, self._lookahead), (3, None)):
            before, number = self._explorer.calls, self._part()
            self._pilots.append(self._draw(number, turn, aimed(self._lookahead), teach))
            self._calls_a_draw = (self._explorer.calls - before) / number if number else math.inf
            if teach is not None:
                teach.settle()

    def _part(self, share: int = 10) -> int:
        """Draws of a pilot: few enough to leave the larger part of the budget to the estimate."""
        return min(PILOT, self._affordable // share)

    def drawn(self, wanted: int, turn: int) -> RankDraws | None:
        """So many fresh draws, or as many as the budget pays for, in parts of which it certainly does; None for none.

        ``turn`` makes them others than those of another call.
        """
        mixture = aimed(self._lookahead) if any(pilot.seen for pilot in self._pilots) else as_the_model()
        made: list[RankDraws] = []
        wanted = min(max(wanted, LEAST), MOST)
        while wanted > 0 and self._affordable >= TURN:
            number = min(wanted, self._affordable // TURN * TURN)
            made.append(self._draw(number, f"{turn}:{len(made)}", mixture))
            wanted -= number
        return sum(made[1:], made[0]) if made else None

    def _draw(self, number: int, turn: int | str, mixture: PolicyMixture, teach: Lookahead | None = None) -> RankDraws:
        return draw(self._explorer, self._secret, self._bound, number, f"{self._seed}:{turn}", mixture, teach)

    @property
    def _affordable(self) -> int:
        """Draws that the budget certainly pays for; the last token of a draw is not read."""
        return max(0, self._budget - self._explorer.calls) // max(1, self._explorer.paths.longest - 1)

    @property
    def _likely_affordable(self) -> int:
        """Draws that the budget pays for if they cost what the pilot's did; of more draws more share nodes."""
        return int(max(0, self._budget - self._explorer.calls) / max(self._calls_a_draw, 1e-9))


def _needed(draws: RankDraws, precision: float, level: float) -> int:
    """Draws it takes to bring the interval within ``precision`` bits, going by those there are."""
    # One draw alone shows no spread.
    if len(draws.others) < 2 or not draws.others.any():
        return 4 * len(draws.others)
    relative = draws.others.std(ddof=1) / (draws.others.mean() + 1)
    width = stats.norm.ppf((1 + level) / 2) * relative / math.log(2)
    enough = max((width / precision) ** 2, len(draws.others) * LEAST_EFFECTIVE / draws.effective)
    return TURN * math.ceil(SAFETY * enough / TURN)


def _interval(draws: RankDraws, level: float) -> tuple[float, float]:
    low, high = positive_mean(draws.others, level)
    # What was met is there for certain; yet the estimate, which it would bias, stays between its ends.
    met = min(float(draws.seen), float(draws.others.mean()))
    return 1 + max(low, met), 1 + max(high, draws.seen)


def summary(draws: RankDraws, level: float, size: int) -> AttackResult:
    """The rank's fields of a finding: an estimate, or a bound where too little stands behind one.

    ``extra`` has ``draws``, their effective sample size (``effective_draws``) and log2 of the most fillings that a draw
    could stand for (``weight_bound``, bits).
    """
    others, count = draws.others, len(draws.others)
    extra = {"draws": count, "effective_draws": draws.effective, "weight_bound": math.log2(draws.most)}
    if draws.effective >= LEAST_EFFECTIVE:
        low, high = (min(end, size) for end in _interval(draws, level))
        rank = min(1 + float(others.mean()), size)
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}
    above = bounded_mean_at_most(others, draws.most, level) if draws.seen else draws.most * at_most(0, count, level)
    high = min(1 + above, float(size))
    return {"rank": high, "rank_low": 1.0 + draws.seen, "rank_high": high, "method": "lower_bound", "extra": extra}
