"""The rank of a secret from uniform random fillings, if these suffice: the usual case of a control.

The estimate is evaluated at fixed numbers of draws (:data:`LOOKS`) until its interval, of level
:data:`~leakage_tasks.stats.intervals.ENDING_LEVEL`, has the requested width. The first number is left out for a
precision that so few draws seldom reach. Draws that were evaluated stay in the estimate. Each draw is predicted from
others, so no draws are spent on a prediction alone.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from leakage_tasks.attacks.causal.group_shares import LearnedDraws, learned_draws
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.path_counts import path_counts
from leakage_tasks.attacks.causal.proposals import Power, ProposalMixture
from leakage_tasks.attacks.causal.random_descents import Visit, descend
from leakage_tasks.attacks.causal.search_tree import mask_of
from leakage_tasks.attacks.causal.secret_path import RankedSecret
from leakage_tasks.attacks.causal.uniform_draws import GroupRequest, Groups
from leakage_tasks.attacks.causal.whole_texts import share_of_sample
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.intervals import ENDING_LEVEL, clopper_pearson
from leakage_tasks.stats.share_interval import share_interval

RANDOM_FILLINGS = ProposalMixture((Power(0.0),), (1,))
"""All draws are random fillings; the proposal is not used."""
LOOKS = (12, 20, 32, 52, 84, 136, 220)
"""Total numbers of groups at which the estimate is evaluated; if more are needed, other proposals need fewer rows."""
SURE = 32
"""Number of groups that are drawn before other proposals are considered."""
ROUNDS = 4
"""Maximum number of rounds of draws to spend the remaining budget."""
UNSEEN = 0.5
"""Share that a rare outcome may have which no draw shows. With less, draws that all equal a wrong prediction of a small
share would have a narrow interval."""
LEAST_VARIANCE = 0.1
"""Smallest variance that is expected of new draws, as a share of the variance without a prediction. A few draws often
show too small a variance."""


@dataclass(frozen=True)
class Shares:
    """Independent unbiased estimates of a share of fillings, ``values`` ``[n]``, each 0 or 1 if ``binary``.

    The share is that of the fillings other than the secret that cost no more than it. ``seen`` such fillings were
    reached. If rounding may change the secret's cost, ``ends`` holds the estimates for a cost that is lower, and
    higher, by the margin.
    """

    values: FloatArray
    seen: int
    binary: bool
    ends: tuple[Shares, ...] = ()

    def interval(self) -> tuple[float, float]:
        """Return the ends of the share's interval: Clopper and Pearson's if all estimates are 0 or 1."""
        if self.binary:
            return clopper_pearson(int(self.values.sum()), len(self.values), ENDING_LEVEL)
        mean, variance = float(self.values.mean()), float(self.values.var())
        return share_interval(len(self.values), mean, variance, self.largest, ENDING_LEVEL)

    @property
    def largest(self) -> float:
        """The value that the next estimate may have: the largest, but at least :data:`UNSEEN`, and at most 1."""
        return 1.0 if self.binary else min(max(float(self.values.max()), UNSEEN), 1.0)

    @property
    def effective(self) -> float:
        """Effective sample size (Σx)² / Σx² (Kish 1965); of estimates of 0 and 1, the number of those of 1."""
        squares = float((self.values**2).sum())
        return float(self.values.sum()) ** 2 / squares if squares else 0.0

    def __add__(self, more: Shares) -> Shares:
        """Join the estimates of two sets of draws."""
        ends = tuple(map(operator.add, self.ends, more.ends))
        return Shares(np.concatenate([self.values, more.values]), max(self.seen, more.seen), self.binary, ends)

    def suffice(self, numbers: Sequence[int], precision: float) -> bool:
        """Return True if one of ``numbers`` of such draws is likely to give an interval of ± ``precision`` bits."""
        # Half a hit more, so that draws without a hit have a mean.
        mean = min(float((self.values.sum() + 0.5 * self.binary) / (len(self.values) + self.binary)), 1.0)
        if mean <= 0:
            return False
        usual = mean * (1 - mean)
        variance = usual if self.binary else max(float(self.values.var(ddof=1)), LEAST_VARIANCE * usual)
        ends = (share_interval(number, mean, variance, self.largest, ENDING_LEVEL) for number in numbers)
        return any(low > 0 and high <= low * 4**precision for low, high in ends)


def _narrowest(number: int) -> float:
    """Return half the width in bits of the interval of this number of draws that all cost no more than the secret."""
    return -math.log2(share_interval(number, 1.0, 0.0, level=ENDING_LEVEL)[0]) / 2


class UniformRank:
    """Rank estimate from uniform random fillings, within a total of ``budget`` model calls of the explorer.

    ``lookahead`` has learned from the draws. It knows the costs at all depths if the first draws ``reached_ends``.
    """

    def __init__(self, secret: RankedSecret, seed: str, budget: int, precision: float) -> None:
        self._secret, self._explorer, self._seed = secret, secret.explorer, f"{seed}:uniform"
        self._budget, self._precision = budget, precision
        self._looks = LOOKS if _narrowest(LOOKS[0]) <= precision else LOOKS[1:]
        counts = path_counts(self._explorer.paths, self._explorer.space)
        self._groups = None if counts is None else Groups.of(self._explorer, counts)
        self._lookahead = secret.lookahead()
        self._made: LearnedDraws | None = None
        self.reached_ends = False

    def result(self) -> AttackResult | None:
        """Return the finding's fields about the rank; None if uniform draws are too few or too imprecise."""
        # With fewer draws, single fillings for the same budget are more precise.
        if not self._explorer.grows or self._affordable < LOOKS[1]:
            return None
        draws = self._first_draws()
        for stream, (number, after) in enumerate(pairwise((*self._looks, 0)), start=1):
            low, high = self._ends(draws)
            if math.log2(high / low) / 2 <= self._precision:
                return self._summary(draws)
            # The first draws vary more than later draws, whose prediction has learned from more draws.
            likely = number < SURE or draws.suffice([later for later in self._looks if later > number], self._precision)
            if not likely or after - number > self._affordable:
                break
            draws += self._draws(after - number, stream)
        return None

    def sample(self) -> AttackResult | None:
        """Return the share of as many random fillings as the remaining budget pays for; None if it pays for none.

        The interval is Clopper and Pearson's; if no draw costs as little as the secret, the rank is a bound.
        """
        parts: list[Shares] = []
        # Draws that share nodes or end early leave budget for more draws.
        number = self._affordable_texts if getattr(self._explorer.target, "cached", True) else 0
        while number and len(parts) < ROUNDS:
            parts.append(self._random_fillings(number, len(LOOKS) + len(parts)))
            number = self._affordable_texts
        if not parts:
            return None
        draws = sum(len(part.values) for part in parts)
        every = [(part, *(part.ends or (part, part))) for part in parts]
        hits, fewest, most = (sum(int(end.values.sum()) for end in ends) for ends in zip(*every, strict=True))
        return share_of_sample(hits, draws, self._explorer.space.size, (fewest, most))

    def _first_draws(self) -> Shares:
        """Make the draws of the first look, which no earlier draws steer, and learn from them."""
        explorer, groups = self._explorer, self._groups
        if groups is not None:
            made = learned_draws(explorer, self._request(groups, self._looks[0], 0))
            self.reached_ends = made.reached_ends >= self._looks[0] // 4
            return self._shares(made)
        fillings: list[Visit] = []

        def keep(visit: Visit) -> None:
            fillings.append(dataclasses.replace(visit, nodes=visit.nodes.without_memory()))

        shares = self._random_fillings(self._looks[0], 0, keep)
        for filling in fillings:
            self._lookahead.learn_from(explorer, filling.nodes, filling.at)
        self._lookahead.settle()
        self.reached_ends = self._reaches_ends(fillings)
        return shares

    def _draws(self, number: int, stream: int) -> Shares:
        """Make new draws that enter the estimate."""
        groups = self._groups
        if groups is None:
            return self._random_fillings(number, stream)
        request = dataclasses.replace(self._request(groups, number, stream), is_steered=True)
        return self._shares(learned_draws(self._explorer, request))

    def _shares(self, made: LearnedDraws) -> Shares:
        """Return the estimates of draws, and keep the lookahead that has learned from them."""
        self._made = made
        first, *ends = (
            Shares(row, met, binary=False) for row, met in zip(made.values, made.seen.tolist(), strict=True)
        )
        return dataclasses.replace(first, ends=tuple(ends))

    def _request(self, groups: Groups, number: int, stream: int) -> GroupRequest:
        secret = self._secret
        return GroupRequest(groups, number, f"{self._seed}:{stream}", secret.bounds, secret.path, self.lookahead)

    def _random_fillings(self, number: int, stream: int, see: Callable[[Visit], object] = lambda visit: None) -> Shares:
        """Make random fillings, whose chances are not known at each node; ``see`` gets each visit.

        A value is 1 for a filling other than the secret that costs no more than a bound, else 0.
        """
        explorer, secret = self._explorer, self._secret
        values = np.zeros((len(secret.bounds), number))

        def add(visit: Visit) -> None:
            done, texts = visit.goers[visit.whole], visit.taken[visit.taken_row[visit.whole]]
            others = ~mask_of(explorer.child_paths(visit.nodes, texts), secret.path)
            for row, bound in zip(values, secret.bounds, strict=True):
                row[done] = others & (texts.costs <= bound)
            see(visit)

        bound, seed = explorer.cut(secret.highest), f"{self._seed}:{stream}"
        descend(explorer, range(number), seed, add, bound=bound, mixture=RANDOM_FILLINGS)
        first, *ends = (Shares(row, 0, binary=True) for row in values)
        return dataclasses.replace(first, ends=tuple(ends))

    def _reaches_ends(self, visits: Iterable[Visit]) -> bool:
        """Return True if a quarter of the first draws reached nodes whose next token may complete a text."""
        reached: set[int] = set()
        for visit in visits:
            children, last = self._explorer.children(visit.nodes), np.zeros(len(visit.nodes), dtype=bool)
            last[children.parents[self._explorer.paths.ends(children.states)]] = True
            reached |= set(visit.who[last[visit.at]].tolist())
        return len(reached) >= self._looks[0] // 4

    def _ends(self, draws: Shares) -> tuple[float, float]:
        """Return the ends of the rank's interval. Fillings that were reached exist for certain."""
        size = self._explorer.space.size
        low, high = draws.interval()
        met = min(float(draws.seen), size * max(float(draws.values.mean()), 0.0))
        return 1 + max(size * low, met), min(1 + max(size * high, draws.seen), size)

    def _summary(self, draws: Shares) -> AttackResult:
        """Return the finding's fields about the rank."""
        size = self._explorer.space.size
        low, high = self._ends(draws)
        if draws.ends:
            low, high = min(low, self._ends(draws.ends[0])[0]), max(high, self._ends(draws.ends[1])[1])
        rank = min(max(1 + size * float(draws.values.mean()), low), size)
        extra = {"draws": len(draws.values), "effective_draws": draws.effective, "proposal": "uniform"}
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}

    @property
    def lookahead(self) -> Lookahead:
        """Predictions learned from the draws so far."""
        if self._made is not None:
            self._lookahead, self._made = self._made.lookahead(), None
        return self._lookahead

    @property
    def _left(self) -> int:
        return max(0, self._budget - self._explorer.calls)

    @property
    def _affordable_texts(self) -> int:
        """Number of single draws that the budget pays for in any case; the last token of a draw is not read."""
        return self._left // max(1, self._explorer.paths.longest - 1)

    @property
    def _affordable(self) -> int:
        """Number of groups that the budget pays for in any case."""
        more = 0 if self._groups is None else self._groups.size - 1
        return self._left // max(1, self._explorer.paths.longest - 1 + more * self._last_tokens)

    @property
    def _last_tokens(self) -> int:
        """Maximum number of tokens that the draws of a group do not share, without the text after a filling."""
        return max(map(len, self._explorer.space.slots[-1].values))
