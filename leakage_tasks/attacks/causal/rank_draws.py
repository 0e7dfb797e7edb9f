"""The rank of a secret from random descents: an unbiased estimate for any distribution of costs."""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import special

from leakage_tasks.attacks.causal.forest import Forest, SecretMask, in_forest
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.proposals import MODEL, ProposalMixture
from leakage_tasks.attacks.causal.random_descents import DescentRequest, Draws, Visit, descend_together
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.attacks.causal.secret_path import RankedSecret
from leakage_tasks.attacks.finding import AttackResult
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import ENDING_LEVEL, at_most, bounded_mean_at_most, positive_mean

DRAWS_MULTIPLE = 16
"""The number of draws is a multiple of this value, so that the last digit of a cost does not change it."""
LEAST_EFFECTIVE = 20.0
"""An estimate with a smaller effective sample size is reported as a bound."""


@dataclass(frozen=True)
class RankDraws:
    """Independent unbiased estimates, one per draw.

    ``others`` ``[n]`` estimates the number of fillings other than the secret that cost no more than it. ``nodes``
    estimates the number of nodes that an exact count reads; draws of random fillings have no such estimate. ``seen`` is
    the number of distinct fillings counted in ``others`` that the draws reached. No estimate can exceed ``most``. If
    rounding may change the secret's cost, ``ends`` holds the draws for a cost that is lower, and higher, by the margin.
    """

    others: FloatArray
    nodes: FloatArray
    seen: int
    most: float
    ends: tuple[RankDraws, ...] = ()

    def __add__(self, more: RankDraws) -> RankDraws:
        """Join the draws of two calls of :func:`draw`."""
        others, nodes = (np.concatenate(both) for both in ((self.others, more.others), (self.nodes, more.nodes)))
        ends = tuple(map(operator.add, self.ends, more.ends))
        return RankDraws(others, nodes, max(self.seen, more.seen), max(self.most, more.most), ends)

    @property
    def effective(self) -> float:
        """Effective sample size (Σx)² / Σx² (Kish 1965): the equivalent number of draws of equal weight."""
        largest = self.others.max(initial=0.0)
        if not largest:
            return 0.0
        scaled = self.others / largest
        return float(scaled.sum() ** 2 / (scaled**2).sum())


def draw(
    secret: RankedSecret,
    number: int,
    seed: str,
    mixture: ProposalMixture,
    teach: Lookahead | None = None,
    *,
    settle: bool = False,
) -> RankDraws:
    """Draw paths that cost no more than the secret, up to its highest bound, by the proposals of a ``mixture``.

    A filling that a draw of proposal j reaches with probability q_j has weight 1 / Σ_j share_j·q_j. At the last node of
    a path, all of its fillings count, each times its probability given the node. Ranks from draws weighted by their
    probability are from Dell'Amico and Filippone (2015), the estimate of a tree's leaves from random descents from
    Knuth (1975), and the weights of a mixture from Veach and Guibas (1995). Draws at one node read it once.

    Args:
        secret: The secret.
        number: Number of draws.
        seed: Seed; the path of a draw depends on the seed, the draw's number and the depth alone.
        mixture: The proposals.
        teach: Learns from all nodes that are read.
        settle: True to settle ``teach`` after the draws.

    Returns:
        One estimate per draw.
    """
    descents = DescentRequest(range(number), seed, secret.explorer.cut(secret.highest), mixture)
    request = _DrawRequest(descents, secret, teach, settle)
    made: RankDraws = in_forest(_draws, secret.explorer, request, number, (mixture.form, request.form))
    return made


@dataclass(frozen=True)
class _DrawRequest:
    """A request for draws in one tree up to the bounds of a ``secret``, from which ``teach`` learns."""

    descents: DescentRequest
    secret: RankedSecret
    teach: Lookahead | None
    settle: bool = False

    @property
    def form(self) -> Hashable:
        """Key of requests that can be answered together, if their mixtures can."""
        return len(self.secret.bounds), self.teach is not None, self.settle

    def made(self, others: FloatArray, nodes: FloatArray, seen: IntArray) -> RankDraws:
        """Return the draws; ``others`` ``[bounds, n]`` and ``seen`` ``[bounds]`` are those up to each bound."""
        mixture, explorer = self.descents.mixture, self.secret.explorer
        nodes = nodes[self.descents.proposals < mixture.uniform]
        columns = zip(others, seen.tolist(), self.secret.bounds, strict=True)
        first, *ends = (
            RankDraws(other, nodes, met, most_per_draw(explorer, limit, mixture)) for other, met, limit in columns
        )
        return dataclasses.replace(first, ends=tuple(ends))


def _draws(forest: Forest, requests: Sequence[_DrawRequest]) -> list[RankDraws]:
    """Make the draws of each request, by mixtures of one form."""
    mixture, draws = requests[0].descents.mixture, Draws(forest, [request.descents for request in requests])
    bounds = np.array([request.secret.bounds for request in requests]).T
    teach = [request.teach for request in requests if request.teach is not None]
    whole = Lookahead.joined(forest, teach) if teach else None
    others, nodes = np.zeros((len(bounds), len(draws.trees))), np.zeros(len(draws.trees))
    seen, alone = np.zeros(bounds.shape, dtype=np.int64), mixture.shares / max(mixture.shares.sum(), 1e-9)
    secrets, highest = SecretMask([request.secret.path for request in requests]), bounds.max(axis=0)

    def see(visit: Visit) -> None:
        trees = forest.trees_of(visit.nodes, visit.children)
        ended, value = _completed(forest, visit, trees, highest[trees], secrets, mixture)
        if value.any():
            for index, limits in enumerate(bounds):
                inside = visit.children.costs <= limits[trees]
                seen[index] += np.bincount(trees[inside], ended[inside], len(forest)).astype(np.int64)
                _add_estimates(others[index], visit, draws.proposals, mixture, np.where(inside, value, 0.0))
        with np.errstate(over="ignore", divide="ignore"):
            nodes[visit.who] += (1 / (np.exp2(visit.log2_q) @ alone))[visit.at]
        if whole is not None:
            whole.learn_from(forest, visit.nodes, visit.at)

    descend_together(forest, draws, see)
    if whole is not None:
        whole.teach(teach)
        if requests[0].settle:
            Lookahead.settle_together(forest, teach)
    ends = np.append(draws.first, len(nodes)).tolist()
    parts = [slice(*pair) for pair in pairwise(ends)]
    return [
        request.made(others[:, part], nodes[part], seen[:, tree])
        for tree, (request, part) in enumerate(zip(requests, parts, strict=True))
    ]


def _completed(
    forest: Forest, visit: Visit, trees: IntArray, bounds: FloatArray, secrets: SecretMask, mixture: ProposalMixture
) -> tuple[IntArray, FloatArray]:
    """Return the number of fillings that each child completes up to its bound, without the secret, and their weight."""
    children = visit.children
    ending = np.flatnonzero(forest.paths.ends(children.states) & (children.costs <= bounds))
    ended, value = np.zeros(len(children), dtype=np.int64), np.zeros(len(children))
    if not len(ending):
        return ended, value
    chosen, tree_of = children[ending], trees[ending]
    paths = forest.child_paths(visit.nodes, chosen)
    counts = forest.count(chosen.states, paths, tree_of)
    by_proposal = np.exp2(visit.log2_q[chosen.parents]) * visit.chance[ending]
    probability = by_proposal @ mixture.shares + mixture.share(mixture.uniform) * counts / forest.space.size
    ended[ending] = counts - secrets.of(paths, tree_of)
    value[ending] = np.divide(ended[ending], probability, out=np.zeros(len(ending)), where=ended[ending] > 0)
    return ended, value


def _add_estimates(
    others: FloatArray, visit: Visit, proposals: IntArray, mixture: ProposalMixture, value: FloatArray
) -> None:
    """Add each descent's estimate at the nodes of a visit."""
    met = np.zeros((len(visit.nodes), mixture.uniform + 1))
    for proposal in range(mixture.uniform):
        weights = visit.chance[:, proposal] * value
        met[:, proposal] = np.bincount(visit.children.parents, weights=weights, minlength=len(visit.nodes))
    others[visit.who] += met[visit.at, proposals[visit.who]]
    # A random filling counts at its last node only, not along its path.
    others[visit.goers[visit.whole]] += value[visit.rows[visit.taken_row[visit.whole]]]


def most_per_draw(explorer: SearchTree, bound: float, mixture: ProposalMixture) -> float:
    """Return an upper bound of each draw's estimate, in fillings.

    The probability of reaching a filling is at least the share of random fillings times 1/|R|. If costs come
    from one model, it is also at least the share of the model's own probabilities times 2^−bound. If a filling's path
    may be the beginning of another filling's path, one draw can reach several fillings.
    """
    fillings = {mixture.uniform: float(explorer.space.size)}
    if explorer.grows:
        fillings[MODEL] = float(np.exp2(min(bound, 1000.0)))
    most = [number / mixture.share(proposal) for proposal, number in fillings.items() if proposal in mixture.pattern]
    return min(most, default=math.inf) * (explorer.paths.longest if explorer.space.ends_early else 1)


def draws_needed(draws: RankDraws, precision: float) -> int:
    """Estimate from ``draws`` the number of draws that gives an interval of ± ``precision`` bits."""
    # The spread cannot be estimated from one draw.
    if len(draws.others) < 2 or not draws.others.any():
        return 4 * len(draws.others)
    relative = draws.others.std(ddof=1) / (draws.others.mean() + 1)
    width = special.ndtri((1 + ENDING_LEVEL) / 2) * relative / math.log(2)
    enough = max((width / precision) ** 2, len(draws.others) * LEAST_EFFECTIVE / draws.effective)
    return DRAWS_MULTIPLE * math.ceil(enough / DRAWS_MULTIPLE)


def interval_of(draws: RankDraws, margin: bool = True) -> tuple[float, float]:
    """Return the ends of the rank's interval. If ``margin`` is true, it includes the effect of rounding on the rank."""
    if margin and draws.ends:
        lower, upper = draws.ends
        low = interval_of(lower)[0] if lower.others.any() else 1.0
        exact_low, exact_high = interval_of(draws, margin=False)
        return min(low, exact_low), max(interval_of(upper)[1], exact_high)
    low, high = positive_mean(draws.others, ENDING_LEVEL)
    # The fillings that were reached exist for certain, but the interval must still contain the estimate.
    met = min(float(draws.seen), float(draws.others.mean()))
    return 1 + max(low, met), 1 + max(high, draws.seen)


def summary(draws: RankDraws, size: int) -> AttackResult:
    """Return the finding's fields about the rank: an estimate, or a bound if the effective sample size is too small.

    ``extra`` has ``draws``, their effective sample size (``effective_draws``) and log2 of the largest possible estimate
    of a draw in fillings (``weight_bound``, bits).
    """
    others, count = draws.others, len(draws.others)
    extra = {"draws": count, "effective_draws": draws.effective, "weight_bound": math.log2(draws.most)}
    if draws.effective >= LEAST_EFFECTIVE:
        low, high = (min(end, size) for end in interval_of(draws))
        rank = min(1 + float(others.mean()), size)
        return {"rank": rank, "rank_low": low, "rank_high": high, "method": "estimated", "extra": extra}
    least, largest = draws.ends or (draws, draws)
    above = largest.most * at_most(0, count, ENDING_LEVEL)
    if largest.seen:
        above = bounded_mean_at_most(largest.others, largest.most, ENDING_LEVEL)
    high = min(1 + above, float(size))
    return {"rank": high, "rank_low": 1.0 + least.seen, "rank_high": high, "method": "lower_bound", "extra": extra}
