"""The rank of a secret from draws: how many are made, what they cost, and what is said where they are too few.

Draws that decide anything, whether a count is made, how further draws lean and how many there are, never enter the
estimate. It may be looked at twice; the levels of both intervals together keep the error at 5 %.
"""

from __future__ import annotations

import math

from scipy import stats

from leakage_tasks.attacks.causal.draw_policies import EXPLORING, PolicyMixture, aimed, as_the_model
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.random_descents import descend
from leakage_tasks.attacks.causal.rank_draws import RankDraws, draw
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.attacks.registry import AttackOption
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
PRECISION = AttackOption(
    "precision",
    float,
    0.25,
    "bits: half the width that the 95 % interval of an estimated exposure is to have, if the budget pays for it",
    least=0.01,
)


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
        found = self._draw(self._part(4), 0, EXPLORING, self._lookahead)
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
        if half_width(draws, LEVELS[0]) <= self._precision:
            return summary(draws, LEVELS[0], self._size)
        again = min(_needed(draws, self._precision, LEVELS[1]), self._likely_affordable)
        more = self.drawn(again, 5) if again >= 2 * len(draws.others) else None
        return summary(draws, LEVELS[0], self._size) if more is None else summary(more, LEVELS[1], self._size)

    def aim(self) -> None:
        """Learn what is to come where no bound ends a draw; then make pilots of draws that go by what was learnt."""
        for visit in descend(self._explorer, range(self._part()), f"{self._seed}:1", mixture=EXPLORING):
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
    def _size(self) -> int:
        return self._explorer.space.size

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
    if not draws.others.any():
        return 4 * len(draws.others)
    relative = draws.others.std(ddof=1) / (draws.others.mean() + 1)
    width = stats.norm.ppf((1 + level) / 2) * relative / math.log(2)
    enough = max((width / precision) ** 2, len(draws.others) * LEAST_EFFECTIVE / draws.effective)
    return TURN * math.ceil(SAFETY * enough / TURN)


def half_width(draws: RankDraws, level: float) -> float:
    """Half the width of the interval of the rank's logarithm, bits."""
    if draws.effective < LEAST_EFFECTIVE:
        return math.inf
    low, high = _interval(draws, level)
    return math.log2(high / low) / 2


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
