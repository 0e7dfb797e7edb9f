"""The rank of a secret from random descents: unbiased, whatever the shape of the costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from leakage_tasks.attacks.causal import random_descents
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.random_descents import MODEL, PolicyMixture, Visit
from leakage_tasks.attacks.causal.search_tree import SearchTree, mask_of
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import at_most, bounded_mean_at_most, positive_mean

TURN = 16
"""Draws come in multiples of this, so that the last digit of a cost does not change their number."""
LEAST_EFFECTIVE = 20.0
"""An estimate behind which stands less, as an effective sample size, is given as a bound."""
LEVELS = (0.96, 0.99)
"""Of the interval at the first and the second look: an error at either comes at most once in 20."""
SAFETY = 1.3
"""Draws over those that the pilot says are needed."""


@dataclass(frozen=True)
class RankDraws:
    """Independent unbiased estimates, one a draw: fillings other than the secret as cheap as it (``others`` ``[n]``),
    and nodes to read for a count (``nodes``, of the draws that are no random fillings).

    ``seen`` different ones were met for certain. No estimate can exceed ``most``. ``ends`` are the same draws for a
    secret that costs a margin less, and a margin more, where rounding may move its cost.
    """

    others: FloatArray
    nodes: FloatArray
    seen: int
    most: float
    ends: tuple[RankDraws, RankDraws] | None = None

    def __add__(self, more: RankDraws) -> RankDraws:
        """All draws of two calls of :func:`draw` together."""
        others, nodes = (np.concatenate(both) for both in ((self.others, more.others), (self.nodes, more.nodes)))
        ends = None
        if self.ends is not None and more.ends is not None:
            ends = self.ends[0] + more.ends[0], self.ends[1] + more.ends[1]
        return RankDraws(others, nodes, max(self.seen, more.seen), max(self.most, more.most), ends)

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
    margin: float = 0.0,
) -> RankDraws:
    """Draw paths among those as cheap as the secret, by the proposals of a ``mixture``.

    A filling that draws of proposal j come to with probability q_j counts 1 / Σ_j share_j·q_j when one comes to it, and
    at the last node of a path all of its fillings count with the chance that the draw had of each. Ranks from draws
    weighted by their probability are Dell'Amico and Filippone's (2015), the estimate of a tree's leaves from random
    descents is Knuth's (1975), the weights of a mixture are Veach and Guibas's (1995). Draws at one node are one node.
    Where a draw goes depends on ``seed``, its number and its depth alone. ``teach`` learns from what is read. With a
    ``margin``, paths are drawn among those up to ``bound + margin``.
    """
    proposals, highest = mixture.of(range(number)), bound + margin
    bounds = [bound, bound - margin, highest] if margin else [bound]
    others, nodes, seen = np.zeros((len(bounds), number)), np.zeros(number), np.zeros(len(bounds), dtype=np.int64)
    by_proposal = proposals < mixture.uniform
    alone = mixture.shares / max(mixture.shares.sum(), 1e-9)
    for visit in random_descents.descend(explorer, range(number), seed, bound=explorer.cut(highest), mixture=mixture):
        found, value = _ending(explorer, visit, secret, mixture, highest)
        for index, limit in enumerate(bounds):
            inside = visit.children.costs <= limit
            seen[index] += int(found[inside].sum())
            _add(others[index], visit, proposals, mixture, np.where(inside, value, 0.0))
        with np.errstate(over="ignore", divide="ignore"):
            nodes[visit.who] += (1 / (np.exp2(visit.log2_q) @ alone))[visit.at]
        if teach is not None:
            teach.learn_from(visit)
    made = [
        RankDraws(other, nodes[by_proposal], int(met), most_per_draw(explorer, limit, mixture))
        for other, met, limit in zip(others, seen, bounds, strict=True)
    ]
    return dataclasses.replace(made[0], ends=(made[1], made[2])) if margin else made[0]


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


def _add(others: FloatArray, visit: Visit, proposals: IntArray, mixture: PolicyMixture, value: FloatArray) -> None:
    """Add what each descent meets at the nodes of a visit."""
    if not value.any():
        return
    each = np.zeros((len(visit.nodes), mixture.uniform + 1))
    for proposal in range(mixture.uniform):
        weights = visit.chance[:, proposal] * value
        each[:, proposal] = np.bincount(visit.children.parents, weights=weights, minlength=len(visit.nodes))
    others[visit.who] += each[visit.at, proposals[visit.who]]
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
    most = [number / mixture.share(proposal) for proposal, number in fillings.items() if proposal in mixture.pattern]
    return min(most, default=math.inf) * (explorer.paths.longest if explorer.space.ends_early else 1)


def draws_needed(draws: RankDraws, precision: float, level: float) -> int:
    """Draws it takes to bring the interval within ``precision`` bits, going by those there are."""
    # One draw alone shows no spread.
    if len(draws.others) < 2 or not draws.others.any():
        return 4 * len(draws.others)
    relative = draws.others.std(ddof=1) / (draws.others.mean() + 1)
    width = stats.norm.ppf((1 + level) / 2) * relative / math.log(2)
    enough = max((width / precision) ** 2, len(draws.others) * LEAST_EFFECTIVE / draws.effective)
    return TURN * math.ceil(SAFETY * enough / TURN)


def interval_of(draws: RankDraws, level: float, margin: bool = True) -> tuple[float, float]:
    """Return the ends of the rank's interval; with a ``margin``, what rounding may do to the rank is in it."""
    if margin and draws.ends is not None:
        lower, upper = draws.ends
        low = interval_of(lower, level)[0] if lower.others.any() else 1.0
        own_low, own_high = interval_of(draws, level, margin=False)
        return min(low, own_low), max(interval_of(upper, level)[1], own_high)
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
        low, high = (min(end, size) for end in interval_of(draws, level))
        rank = min(1 + float(others.mean()), size)
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}
    least, largest = draws.ends or (draws, draws)
    above = largest.most * at_most(0, count, level)
    if largest.seen:
        above = bounded_mean_at_most(largest.others, largest.most, level)
    high = min(1 + above, float(size))
    return {"rank": high, "rank_low": 1.0 + least.seen, "rank_high": high, "method": "lower_bound", "extra": extra}
