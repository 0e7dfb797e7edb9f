"""The rank of a secret from uniform random fillings, if these suffice: the usual case of a control.

A few first draws teach a prediction and decide on the number of draws; they never enter the estimate. The estimate may
be evaluated twice, with new draws the second time. The levels of both intervals together keep the error rate at 5 %.
"""

from __future__ import annotations

import math

import numpy as np

from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.path_counts import path_counts
from leakage_tasks.attacks.causal.random_descents import Visit
from leakage_tasks.attacks.causal.rank_draws import LEVELS
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.uniform_draws import (
    Prediction,
    UniformDraws,
    of_draws,
    read_visits,
    uniform_draws,
    without_caches,
)
from leakage_tasks.attacks.causal.whole_texts import share_of_sample
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.stats.share_interval import share_interval

FIRST = 16
"""Number of draws that decide; each half of them tests the prediction that the other half taught."""
STEP = 16
"""The number of draws is a multiple of this value, so that the last digit of a cost does not change it."""
MOST = 64
"""Maximum number of draws; if more are needed, other proposals need fewer rows."""
SAFETY = 1.25
"""Safety factor on the variance of draws."""
LEAST_VARIANCE = 0.2
"""Smallest variance that is expected of new draws, as a share of the variance without a prediction. A few draws often
show too small a variance."""


class UniformRank:
    """Rank estimate from uniform random fillings, within a total of ``budget`` model calls of the explorer.

    Rounding may change the secret's cost by up to ``margin`` bits. ``lookahead`` has learned from the first draws. It
    knows the costs at all depths if these draws ``reached_ends``.
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
        self._explorer, self._secret, self._bound, self._seed = explorer, secret, bound, f"{seed}:uniform"
        self._budget, self._precision, self._margin = budget, precision, margin
        self._counts = path_counts(explorer.paths, explorer.space)
        self.lookahead = Lookahead(explorer, bound)
        self.reached_ends = False

    def result(self) -> AttackResult | None:
        """Return the finding's fields about the rank; None if uniform draws are too few or too imprecise."""
        if not self._explorer.grows or self._affordable < FIRST + STEP:
            return None
        number = self._needed(self._first_draws(), LEVELS[0])
        if number is None or number > self._affordable:
            return None
        draws = self._draws(number, 1)
        if self._half_width(draws, LEVELS[0]) <= self._precision:
            return self._summary(draws, LEVELS[0])
        number = self._needed(draws, LEVELS[1])
        if number is None or number > self._affordable:
            return None
        return self._summary(self._draws(number, 2), LEVELS[1])

    def sample(self) -> AttackResult | None:
        """Return the share of all draws that the remaining budget pays for; None if it pays for no draw.

        The interval is Clopper and Pearson's; if no draw costs as little as the secret, the rank is a bound.
        """
        number = self._affordable
        if not number or not getattr(self._explorer.target, "cached", True):
            return None
        visits = read_visits(self._explorer, range(number), f"{self._seed}:3", self._bound + self._margin)
        draws = uniform_draws(self._explorer, self._secret, self._bound, number, visits, None, self._margin)
        hits, fewest, most = (int(part.shares.sum()) for part in (draws, *(draws.ends or (draws, draws))))
        return share_of_sample(hits, number, self._explorer.space.size, (fewest, most))

    def _first_draws(self) -> UniformDraws:
        """Make the draws that decide, and learn from them. Each half is estimated by a prediction of the other half."""
        explorer, highest = self._explorer, self._bound + self._margin
        visits = without_caches(read_visits(explorer, range(FIRST), f"{self._seed}:0", highest))
        for visit in visits:
            self.lookahead.learn_from(visit)
        self.lookahead.settle()
        self.reached_ends = sum(_at_ends(explorer, visit) for visit in visits) >= FIRST // 4
        if self._counts is None:
            return uniform_draws(explorer, self._secret, self._bound, FIRST, visits, None)
        half, shares = FIRST // 2, np.zeros(FIRST)
        for tested, learned in ((slice(0, half), range(half, FIRST)), (slice(half, FIRST), range(half))):
            lookahead = Lookahead(explorer, self._bound)
            for visit in of_draws(visits, learned):
                lookahead.learn_from(visit)
            lookahead.settle()
            prediction = Prediction(lookahead, self._counts)
            made = uniform_draws(explorer, self._secret, self._bound, FIRST, visits, prediction)
            shares[tested] = made.shares[tested]
        return UniformDraws(shares, 0, binary=False)

    def _draws(self, number: int, stream: int) -> UniformDraws:
        """Make new draws that enter the estimate."""
        prediction = None if self._counts is None else Prediction(self.lookahead, self._counts)
        visits = read_visits(self._explorer, range(number), f"{self._seed}:{stream}", self._bound + self._margin)
        return uniform_draws(
            self._explorer, self._secret, self._bound, number, visits, prediction, self._margin
        )

    def _needed(self, draws: UniformDraws, level: float) -> int | None:
        """Estimate the number of draws that gives the requested precision; None if it exceeds :data:`MOST`."""
        # Half a hit more, so that draws without a hit have a mean.
        mean = float((draws.shares.sum() + 0.5 * draws.binary) / (len(draws.shares) + draws.binary))
        if mean <= 0:
            return None
        mean = min(mean, 1.0)
        variance = max(SAFETY * float(draws.shares.var(ddof=1)), LEAST_VARIANCE * mean * (1 - mean))
        if draws.binary:
            variance = mean * (1 - mean)
        numbers = np.arange(STEP, MOST + 1, STEP)
        low, high = share_interval(numbers, mean, variance, level)
        with np.errstate(divide="ignore"):
            enough = np.flatnonzero(np.log2(high / low) / 2 <= self._precision)
        return int(numbers[enough[0]]) if len(enough) else None

    def _half_width(self, draws: UniformDraws, level: float) -> float:
        """Return half the width in bits of the interval of log2 rank, without the effect of rounding."""
        low, high = self._ends(draws, level)
        return math.log2(high / low) / 2

    def _ends(self, draws: UniformDraws, level: float) -> tuple[float, float]:
        """Return the ends of the rank's interval. Fillings that were reached exist for certain."""
        size = self._explorer.space.size
        low, high = draws.interval(level)
        met = min(float(draws.seen), size * max(float(draws.shares.mean()), 0.0))
        return 1 + max(size * low, met), min(1 + max(size * high, draws.seen), size)

    def _summary(self, draws: UniformDraws, level: float) -> AttackResult:
        """Return the finding's fields about the rank."""
        size = self._explorer.space.size
        low, high = self._ends(draws, level)
        if draws.ends is not None:
            low, high = min(low, self._ends(draws.ends[0], level)[0]), max(high, self._ends(draws.ends[1], level)[1])
        rank = min(max(1 + size * float(draws.shares.mean()), low), size)
        extra = {"draws": len(draws.shares), "effective_draws": draws.effective, "proposal": "uniform"}
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}

    @property
    def _affordable(self) -> int:
        """Number of draws that the budget pays for in any case; the last token of a draw is not read."""
        return max(0, self._budget - self._explorer.calls) // max(1, self._explorer.paths.longest - 1)


def _at_ends(explorer: SearchTree, visit: Visit) -> int:
    """Return the number of draws at nodes whose next token may complete a filling."""
    children = explorer.children(visit.nodes)
    last = np.zeros(len(visit.nodes), dtype=bool)
    last[children.parents[explorer.paths.ends(children.states)]] = True
    return int(last[visit.at].sum())
