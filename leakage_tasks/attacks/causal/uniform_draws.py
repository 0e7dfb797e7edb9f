"""The share of fillings that cost no more than a secret, from uniform random fillings.

The paths of all draws are read together, so that equal beginnings are read once, and a path ends when it costs more than
the secret. Each draw gives one unbiased estimate of the share.

A node that is read gives the costs of all its children. So a prediction of the share of cheap fillings below each child
is a control variate: at each node of its path, a draw adds the mean prediction of the children, weighted by their
probabilities, and subtracts the prediction for the child that it chooses if that is read next. At the last node the
predictions are the true 0 or 1. The estimate is unbiased for any prediction that does not depend on the draw; an exact
prediction leaves no variance.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal import random_descents
from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.path_counts import PathCounts
from leakage_tasks.attacks.causal.random_descents import Power, ProposalMixture, Visit
from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, mask_of
from leakage_tasks.core.arrays import BoolArray, FloatArray
from leakage_tasks.stats.intervals import clopper_pearson
from leakage_tasks.stats.share_interval import share_interval

RANDOM_FILLINGS = ProposalMixture((Power(0.0),), (1,))
"""All draws are random fillings; the proposal is not used."""


@dataclass(frozen=True)
class Prediction:
    """Predicted shares of cheap fillings below a child: the lookahead's number of fillings divided by their total."""

    lookahead: Lookahead
    counts: PathCounts

    def shares(self, children: Children, bound: float) -> FloatArray:
        """Return the predicted share of fillings below each child that cost no more than ``bound``, ``[m]``."""
        share = self.lookahead.expected(children, bound) / self.counts.of(children.states)
        return np.where(children.costs <= bound, np.clip(share, 0.0, 1.0), 0.0)


@dataclass(frozen=True)
class UniformDraws:
    """Independent unbiased estimates of a share of fillings, one per draw, ``shares`` ``[n]``.

    The share is that of the fillings other than the secret that cost no more than it. ``seen`` is the number of such
    fillings that were reached. Without a prediction each estimate is 0 or 1 (``binary``). If rounding may change the
    secret's cost, ``ends`` holds the draws for a cost that is lower, and higher, by the margin.
    """

    shares: FloatArray
    seen: int
    binary: bool
    ends: tuple[UniformDraws, UniformDraws] | None = None

    def interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the share's interval: Clopper and Pearson's if all estimates are 0 or 1."""
        if self.binary:
            return clopper_pearson(int(self.shares.sum()), len(self.shares), level)
        low, high = share_interval(len(self.shares), float(self.shares.mean()), float(self.shares.var()), level)
        return float(low), float(high)

    @property
    def effective(self) -> float:
        """Effective sample size (Σx)² / Σx² (Kish 1965); of estimates of 0 and 1, the number of those of 1."""
        squares = float((self.shares**2).sum())
        return float(self.shares.sum()) ** 2 / squares if squares else 0.0


def read_visits(explorer: SearchTree, numbers: range, seed: str, bound: float) -> Iterator[Visit]:
    """Read the paths of uniform random fillings up to ``bound`` bits, level by level."""
    return random_descents.descend(explorer, numbers, seed, bound=explorer.cut(bound), mixture=RANDOM_FILLINGS)


def uniform_draws(
    explorer: SearchTree,
    secret: Sequence[int],
    bound: float,
    number: int,
    visits: Iterable[Visit],
    prediction: Prediction | None,
    margin: float = 0.0,
) -> UniformDraws:
    """Compute the estimates of ``number`` draws from the nodes that they visit.

    Args:
        explorer: The search tree.
        secret: Token path of the secret.
        bound: Cost of the secret in bits.
        number: Number of draws.
        visits: The visits of :func:`read_visits`, up to ``bound + margin``.
        prediction: The control variate, which must not depend on these draws; None for estimates of 0 or 1.
        margin: Bits by which rounding may change the secret's cost.

    Returns:
        One estimate per draw.
    """
    bounds = [bound, bound - margin, bound + margin] if margin else [bound]
    shares, seen = np.zeros((len(bounds), number)), np.zeros(len(bounds), dtype=np.int64)
    for visit in visits:
        ending = _ending(explorer, visit, secret)
        for index, limit in enumerate(bounds):
            inside = ending & (visit.children.costs <= limit)
            seen[index] += int(inside.sum())
            if prediction is None:
                whole = visit.rows[visit.taken_row[visit.whole]]
                shares[index][visit.goers[visit.whole]] += inside[whole]
            else:
                _add_predictions(explorer, shares[index], visit, inside, prediction, limit)
    made = [UniformDraws(row, int(met), prediction is None) for row, met in zip(shares, seen, strict=True)]
    return dataclasses.replace(made[0], ends=(made[1], made[2])) if margin else made[0]


def _ending(explorer: SearchTree, visit: Visit, secret: Sequence[int]) -> BoolArray:
    """Return a mask of the children that complete a filling other than the secret."""
    ending: BoolArray = explorer.paths.ends(visit.children.states)
    rows = np.flatnonzero(ending)
    if len(rows):
        paths = explorer.child_paths(visit.nodes, visit.children[rows])
        counts = explorer.paths.count(visit.children.states[rows], paths)
        ending[rows] = (counts > 0) & ~mask_of(paths, secret)
    return ending


def _add_predictions(
    explorer: SearchTree, shares: FloatArray, visit: Visit, inside: BoolArray, prediction: Prediction, limit: float
) -> None:
    """Add to each draw the mean prediction at its node, and subtract the prediction of the child that it reads next."""
    children, nodes = visit.children, visit.nodes
    onward = explorer.paths.goes_on(children.states)
    predicted = np.where(onward, prediction.shares(children, limit), inside)
    chances = prediction.counts.of(children.states) / prediction.counts.of(nodes.states)[children.parents]
    means = np.bincount(children.parents, weights=chances * predicted, minlength=len(nodes))
    shares[visit.who] += means[visit.at]
    chosen = visit.rows[visit.taken_row]
    shares[visit.goers] -= np.where(onward[chosen], predicted[chosen], 0.0)


def without_caches(visits: Iterable[Visit]) -> list[Visit]:
    """Keep visits after their paths were read, without the KV caches of their nodes."""
    return [dataclasses.replace(visit, nodes=_costs_only(visit.nodes)) for visit in visits]


def _costs_only(nodes: Nodes) -> Nodes:
    return Nodes(nodes.states, nodes.costs, nodes.paths, None, nodes.following)


def of_draws(visits: Iterable[Visit], numbers: range) -> Iterator[Visit]:
    """Restrict the draws at each visit to some numbers, to learn from these draws alone."""
    for visit in visits:
        here = (visit.who >= numbers.start) & (visit.who < numbers.stop)
        if here.any():
            yield dataclasses.replace(visit, at=visit.at[here], who=visit.who[here])
