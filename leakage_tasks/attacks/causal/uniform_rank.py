"""The rank of a secret from uniform random fillings, if these suffice: the usual case of a control.

A few first draws teach a prediction and decide on the number of draws; they never enter the estimate. Each half of the
draws that enter it also learns from the other half. The estimate may be evaluated twice, with new draws the second
time. The levels of both intervals together keep the error rate at 5 %.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.group_shares import learned_draws
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.path_counts import path_counts
from leakage_tasks.attacks.causal.proposals import Power, ProposalMixture
from leakage_tasks.attacks.causal.random_descents import Visit, descend
from leakage_tasks.attacks.causal.rank_draws import LEVELS
from leakage_tasks.attacks.causal.search_tree import SearchTree, mask_of
from leakage_tasks.attacks.causal.uniform_draws import GroupRequest, Groups
from leakage_tasks.attacks.causal.whole_texts import share_of_sample
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.core.arrays import FloatArray
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.share_interval import share_interval

RANDOM_FILLINGS = ProposalMixture((Power(0.0),), (1,))
"""All draws are random fillings; the proposal is not used."""
FIRST = 8
"""Number of groups of draws that decide; each half of them tests the prediction that the other half taught."""
STEP = 4
"""The number of groups is a multiple of this value, so that the last digit of a cost does not change it."""
FEWEST, MOST, MOST_AGAIN = 12, 128, 256
"""Minimum number of groups, and maximum numbers for the first and the second evaluation; if more are needed, other
proposals need fewer rows."""
ROUNDS = 4
"""Maximum number of rounds of draws to spend the remaining budget."""
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

    def interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the share's interval: Clopper and Pearson's if all estimates are 0 or 1."""
        if self.binary:
            return clopper_pearson(int(self.values.sum()), len(self.values), level)
        low, high = share_interval(len(self.values), float(self.values.mean()), float(self.values.var()), level)
        return float(low), float(high)

    @property
    def effective(self) -> float:
        """Effective sample size (Σx)² / Σx² (Kish 1965); of estimates of 0 and 1, the number of those of 1."""
        squares = float((self.values**2).sum())
        return float(self.values.sum()) ** 2 / squares if squares else 0.0

    def needed(self, level: float, precision: float, most: int = MOST) -> int | None:
        """Estimate the number of draws for an interval of ± ``precision`` bits; None if it exceeds ``most``."""
        # Half a hit more, so that draws without a hit have a mean.
        mean = min(float((self.values.sum() + 0.5 * self.binary) / (len(self.values) + self.binary)), 1.0)
        if mean <= 0:
            return None
        usual = mean * (1 - mean)
        variance = usual if self.binary else max(float(self.values.var(ddof=1)), LEAST_VARIANCE * usual)
        numbers = np.arange(FEWEST, most + 1, STEP)
        low, high = share_interval(numbers, mean, variance, level)
        with np.errstate(divide="ignore", over="ignore"):
            enough = np.flatnonzero(np.log2(high / low) / 2 <= precision)
        return int(numbers[enough[0]]) if len(enough) else None


class RandomFillings:
    """The value 1 for each of ``number`` random fillings that costs no more than each of ``bounds``, else 0."""

    def __init__(self, explorer: SearchTree, secret: Sequence[int], bounds: Sequence[float], number: int) -> None:
        self._explorer, self._secret, self._bounds = explorer, secret, bounds
        self._values = np.zeros((len(bounds), number))

    def add(self, visit: Visit) -> None:
        """Add the fillings that are completed at a visit."""
        done = visit.goers[visit.whole]
        texts = visit.taken[visit.taken_row[visit.whole]]
        others = ~mask_of(self._explorer.child_paths(visit.nodes, texts), self._secret)
        for index, bound in enumerate(self._bounds):
            self._values[index, done] = others & (texts.costs <= bound)

    def shares(self) -> Shares:
        """Return the values for the first bound; the values for the others are its ends."""
        first, *ends = (Shares(row, 0, binary=True) for row in self._values)
        return Shares(first.values, 0, True, tuple(ends))


def _without_memory(visit: Visit) -> Visit:
    return dataclasses.replace(visit, nodes=visit.nodes.without_memory())


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
        self._explorer, self._secret, self._seed = explorer, secret, f"{seed}:uniform"
        self._bounds = (bound, bound - margin, bound + margin) if margin else (bound,)
        self._budget, self._precision = budget, precision
        counts = path_counts(explorer.paths, explorer.space)
        self._groups = None if counts is None else Groups.of(explorer, counts)
        self.lookahead = Lookahead(explorer, bound)
        self.reached_ends = False

    def result(self) -> AttackResult | None:
        """Return the finding's fields about the rank; None if uniform draws are too few or too imprecise."""
        if not self._explorer.grows or self._affordable < FIRST + FEWEST:
            return None
        number = self._first_draws().needed(LEVELS[0], self._precision)
        if number is None or number > self._affordable:
            return None
        draws = self._draws(number, 1)
        low, high = self._ends(draws, LEVELS[0])
        if math.log2(high / low) / 2 <= self._precision:
            return self._summary(draws, LEVELS[0])
        number = draws.needed(LEVELS[1], self._precision, MOST_AGAIN)
        if number is None or number > self._affordable:
            return None
        return self._summary(self._draws(number, 2), LEVELS[1])

    def sample(self) -> AttackResult | None:
        """Return the share of as many random fillings as the remaining budget pays for; None if it pays for none.

        The interval is Clopper and Pearson's; if no draw costs as little as the secret, the rank is a bound.
        """
        parts: list[Shares] = []
        # Draws that share nodes or end early leave budget for more draws.
        number = self._affordable_texts if getattr(self._explorer.target, "cached", True) else 0
        while number and len(parts) < ROUNDS:
            parts.append(self._random_fillings(number, 3 + len(parts)))
            number = self._affordable_texts
        if not parts:
            return None
        draws = sum(len(part.values) for part in parts)
        every = [(part, *(part.ends or (part, part))) for part in parts]
        hits, fewest, most = (sum(int(end.values.sum()) for end in ends) for ends in zip(*every, strict=True))
        return share_of_sample(hits, draws, self._explorer.space.size, (fewest, most))

    def _first_draws(self) -> Shares:
        """Make the draws that decide, and learn from them."""
        explorer, groups = self._explorer, self._groups
        if groups is None:
            fillings: list[Visit] = []
            self._read_fillings(FIRST, 0, lambda visit: fillings.append(_without_memory(visit)))
            for filling in fillings:
                self.lookahead.learn_from(explorer, filling.nodes, filling.at)
            self.lookahead.settle()
            self.reached_ends = self._reaches_ends(fillings)
            hits = RandomFillings(explorer, self._secret, self._bounds, FIRST)
            for filling in fillings:
                hits.add(filling)
            return hits.shares()
        made = learned_draws(explorer, self._request(groups, FIRST, 0), self.lookahead)
        self.lookahead, self.reached_ends = made.lookahead, made.reached_ends >= FIRST // 4
        return Shares(made.values[0], 0, binary=False)

    def _draws(self, number: int, stream: int) -> Shares:
        """Make new draws that enter the estimate."""
        groups = self._groups
        if groups is None:
            return self._random_fillings(number, stream)
        made = learned_draws(self._explorer, self._request(groups, number, stream), self.lookahead)
        self.lookahead = made.lookahead
        first, *ends = (
            Shares(row, met, binary=False) for row, met in zip(made.values, made.seen.tolist(), strict=True)
        )
        return Shares(first.values, first.seen, first.binary, tuple(ends))

    def _request(self, groups: Groups, number: int, stream: int) -> GroupRequest:
        return GroupRequest(groups, number, f"{self._seed}:{stream}", self._bounds, self._secret)

    def _read_fillings(self, number: int, stream: int, see: Callable[[Visit], object]) -> None:
        """Read the paths of random fillings whose chances are not known at each node."""
        bound = self._explorer.cut(max(self._bounds))
        seed = f"{self._seed}:{stream}"
        descend(self._explorer, range(number), seed, see, bound=bound, mixture=RANDOM_FILLINGS)

    def _random_fillings(self, number: int, stream: int) -> Shares:
        """Make random fillings that enter the estimate."""
        hits = RandomFillings(self._explorer, self._secret, self._bounds, number)
        self._read_fillings(number, stream, hits.add)
        return hits.shares()

    def _reaches_ends(self, visits: Iterable[Visit]) -> bool:
        """Return True if a quarter of the first draws reached nodes whose next token may complete a text."""
        reached: set[int] = set()
        for visit in visits:
            children, last = self._explorer.children(visit.nodes), np.zeros(len(visit.nodes), dtype=bool)
            last[children.parents[self._explorer.paths.ends(children.states)]] = True
            reached |= set(visit.who[last[visit.at]].tolist())
        return len(reached) >= FIRST // 4

    def _ends(self, draws: Shares, level: float) -> tuple[float, float]:
        """Return the ends of the rank's interval. Fillings that were reached exist for certain."""
        size = self._explorer.space.size
        low, high = draws.interval(level)
        met = min(float(draws.seen), size * max(float(draws.values.mean()), 0.0))
        return 1 + max(size * low, met), min(1 + max(size * high, draws.seen), size)

    def _summary(self, draws: Shares, level: float) -> AttackResult:
        """Return the finding's fields about the rank."""
        size = self._explorer.space.size
        low, high = self._ends(draws, level)
        if draws.ends:
            low, high = min(low, self._ends(draws.ends[0], level)[0]), max(high, self._ends(draws.ends[1], level)[1])
        rank = min(max(1 + size * float(draws.values.mean()), low), size)
        extra = {"draws": len(draws.values), "effective_draws": draws.effective, "proposal": "uniform"}
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}

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
