"""How many fillings are as cheap as the secret, from random descents: unbiased whatever the shape of their costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.draw_policies import MODEL, PolicyMixture
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.random_descents import Visit, descend
from leakage_tasks.attacks.causal.search_tree import SearchTree, mask_of
from leakage_tasks.core.arrays import FloatArray, IntArray


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
    for visit in descend(explorer, range(number), seed, bound=bound, mixture=mixture):
        found, value = _ending(explorer, visit, secret, mixture)
        seen += int(found.sum())
        _add(others, visit, leanings, mixture, value)
        with np.errstate(over="ignore", divide="ignore"):
            nodes[visit.who] += (1 / (np.exp2(visit.log2_q) @ alone))[visit.at]
        if teach is not None:
            teach.learn_from(visit)
    return RankDraws(others, nodes[leans], seen, most_per_draw(explorer, bound, mixture))


def _ending(
    explorer: SearchTree, visit: Visit, secret: Sequence[int], mixture: PolicyMixture
) -> tuple[IntArray, FloatArray]:
    """How many fillings, the secret excepted, each child ends; and those over the mixture's probability of it."""
    children = visit.children
    ending = np.flatnonzero(explorer.paths.ends(children.states))
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

    A filling's probability is its share of random ones, 1/|R|, or more, and that of the model's own probabilities,
    2^−bound, or more. Where a filling's path may go on to another filling's, a draw can meet several.
    """
    fillings = {mixture.uniform: float(explorer.space.size), MODEL: float(np.exp2(min(bound, 1000.0)))}
    most = [number / mixture.share(leaning) for leaning, number in fillings.items() if leaning in mixture.pattern]
    return min(most, default=math.inf) * (explorer.paths.longest if explorer.space.ends_early else 1)
