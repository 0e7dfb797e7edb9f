"""Unbiased counts of cheap fillings from a tree of partial fillings that is thinned level by level.

At each level, some of the partial fillings that may still be cheap are kept: the most important with certainty, others
with a probability p. A kept node has weight 1/p, and the weights of cheap fillings sum to an unbiased estimate of their
number, for any probabilities. Probabilities capped at 1 are the optimal resampling of Fearnhead and Clifford (2003);
the estimate is stochastic enumeration (Rubinstein 2013; Vaisman and Kroese 2017). A random descent knows only its own
path, but here all nodes of a level are compared. So if a model has memorised some fillings, each repetition keeps their
beginnings.

Several repetitions are thinned independently and read together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.secret_path import RankedSecret
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import ENDING_LEVEL, positive_mean

REPETITIONS = 16
SHARES = (0.6, 0.2, 0.2)
"""Shares of a node's importance: its weight times the expected number of cheap completions, its weight times the
model's probability, and its weight alone."""
LEAST_KEPT = 4
"""Minimum number of nodes that a repetition keeps per level. With fewer nodes, scoring whole texts is more precise."""


@dataclass(frozen=True)
class ThinnedCount:
    """Independent unbiased counts (``others``, one per repetition) of fillings that cost no more than the secret.

    The secret itself is not counted. Each repetition kept at most ``nodes_per_level`` nodes of a level. ``seen`` is the
    number of distinct fillings that were counted. If rounding may change the secret's cost, ``ends`` holds the counts
    for a cost that is lower, and higher, by the margin.
    """

    others: FloatArray
    nodes_per_level: int
    seen: int
    ends: tuple[ThinnedCount, ...] = ()

    @property
    def effective(self) -> float:
        """Inverse of the squared relative error of the mean; 0 if no filling was counted."""
        mean, spread = float(self.others.mean()), float(self.others.std(ddof=1))
        if not mean:
            return 0.0
        return math.inf if not spread else len(self.others) * (mean / spread) ** 2

    def interval(self) -> tuple[float, float]:
        """Return the ends of the mean's interval, including the effect of rounding."""
        low, high = self.own_interval()
        if not self.ends:
            return low, high
        lower, upper = self.ends
        least = lower.own_interval()[0] if lower.others.any() else 0.0
        return min(low, least), max(high, upper.own_interval()[1])

    def own_interval(self) -> tuple[float, float]:
        """Return the two-sided interval of the mean without the effect of rounding; ``seen`` bounds it from below.

        The upper end is computed with one more repetition of twice the largest count, because repetitions with equal
        counts do not show their spread.
        """
        low, _ = positive_mean(self.others, ENDING_LEVEL)
        _, high = positive_mean(np.append(self.others, 2 * self.others.max()), ENDING_LEVEL)
        return max(low, min(float(self.seen), float(self.others.mean()))), max(high, float(self.seen))


def thinned_count(secret: RankedSecret, ahead: Lookahead, calls: int, seed: str) -> ThinnedCount | None:
    """Count cheap fillings in a thinned tree.

    Args:
        secret: The secret.
        ahead: Predicts the number of cheap completions.
        calls: The most calls of the explorer.
        seed: Seed of the choice of nodes.

    Returns:
        The counts; None if ``calls`` are too few.
    """
    return _Thinning(secret, ahead, calls, seed).count()


class _Thinning:
    """State of one count: the nodes of the current level, split into batches, and their weights in each repetition."""

    def __init__(self, secret: RankedSecret, ahead: Lookahead, calls: int, seed: str) -> None:
        self._secret, self._explorer, self._ahead = secret, secret.explorer, ahead
        self._last = self._explorer.calls + calls
        self._random = np.random.default_rng(list(seed.encode()))
        self._parts: list[Nodes] = [self._explorer.root]
        self._weights = np.ones((REPETITIONS, 1))
        self._others = np.zeros((len(secret.bounds), REPETITIONS))
        self._seen, self._kept = np.zeros(len(secret.bounds), dtype=np.int64), 0

    def count(self) -> ThinnedCount | None:
        """Count level by level; return None if the calls are too few."""
        for depth in range(max(1, self._explorer.paths.longest)):
            onward = self._count_complete([self._explorer.children(nodes, self._cut) for nodes in self._parts])
            if not sum(map(len, onward)):
                break
            levels = max(1, self._explorer.paths.longest - 1 - depth)
            number = (self._last - self._explorer.calls) // (REPETITIONS * levels)
            if number < LEAST_KEPT:
                return None
            self._kept = max(self._kept, number)
            self._read(onward, *self._chosen(onward, number))
        count, *ends = (
            ThinnedCount(others, self._kept, int(seen)) for others, seen in zip(self._others, self._seen, strict=True)
        )
        return dataclasses.replace(count, ends=tuple(ends))

    @property
    def _cut(self) -> float:
        return self._explorer.cut(self._secret.highest)

    def _count_complete(self, children: Sequence[Children]) -> list[Children]:
        """Count the children that complete a cheap filling; return the children that can continue, for each batch."""
        first, onward = 0, []
        for nodes, part in zip(self._parts, children, strict=True):
            ending, counts = self._secret.others(nodes, part)
            weights = self._weights[:, first + ending.parents]
            for index, limit in enumerate(self._secret.bounds):
                inside = np.where(ending.costs <= limit, counts, 0)
                self._others[index] += weights @ inside
                self._seen[index] += int(inside.sum())
            onward.append(part[self._explorer.paths.goes_on(part.states)])
            first += len(nodes)
        return onward

    def _chosen(self, onward: Sequence[Children], number: int) -> tuple[IntArray, FloatArray]:
        """Choose the children that some repetition keeps; return them and their weights ``[repetitions, n]``."""
        first = np.cumsum([0, *map(len, self._parts)])
        parents = np.concatenate([part.parents + start for part, start in zip(onward, first, strict=False)])
        expected = np.concatenate([self._ahead.expected(part, self._secret.highest) for part in onward])
        costs = np.concatenate([part.costs for part in onward])
        likely = np.exp2(costs.min() - costs)
        chosen, weights = [], []
        for weight in self._weights:
            there = np.flatnonzero(weight[parents])
            inherited = weight[parents[there]]
            measures = (inherited * expected[there], inherited * likely[there], inherited)
            importance = sum(share * _shares(measure) for share, measure in zip(SHARES, measures, strict=True))
            rows, chance = thin(np.asarray(importance), number, float(self._random.random()))
            chosen.append(there[rows])
            weights.append(inherited[rows] / chance)
        union = np.unique(np.concatenate(chosen))
        union_weights = np.zeros((REPETITIONS, len(union)))
        for repetition, (rows, row_weights) in enumerate(zip(chosen, weights, strict=True)):
            union_weights[repetition, np.searchsorted(union, rows)] = row_weights
        return union, union_weights

    def _read(self, onward: Sequence[Children], union: IntArray, weights: FloatArray) -> None:
        """Run the model on the kept children, in batches as large as the explorer allows."""
        parts, first = [], 0
        for nodes, part_children in zip(self._parts, onward, strict=True):
            taken = part_children[union[(union >= first) & (union < first + len(part_children))] - first]
            parts += [self._explorer.read_part(nodes, taken[part]) for part in self._explorer.parts(nodes, taken)]
            first += len(part_children)
        self._parts, self._weights = parts, weights


def thin(importance: FloatArray, number: int, start: float) -> tuple[IntArray, FloatArray]:
    """Choose about ``number`` rows by their importance ``[n]``; return the rows and the probability of choosing each.

    Probabilities are proportional to the importance and at most 1. Sampling is systematic from ``start``, a number in
    [0, 1), so that neighbours are rarely chosen together.
    """
    if len(importance) <= number:
        return np.arange(len(importance)), np.ones(len(importance))
    chance = np.minimum(1.0, importance / _threshold(importance, number))
    total = np.cumsum(chance)
    taken = np.floor(total - start) > np.floor(np.concatenate([[0.0], total[:-1]]) - start)
    rows = np.flatnonzero(taken)
    return rows, chance[rows]


def _threshold(importance: FloatArray, number: int) -> float:
    """Return the c for which min(1, m / c) sums to ``number``; nodes with an importance m above c are always kept."""
    ordered = np.sort(importance)[::-1]
    rest = np.cumsum(ordered[::-1])[::-1]
    left = number - np.arange(number)
    certain = int(np.argmax(ordered[:number] * left < rest[:number]))
    return float(rest[certain] / left[certain])


def _shares(values: FloatArray) -> FloatArray:
    total = values.sum()
    return values / total if total > 0 else np.full(len(values), 1 / max(len(values), 1))
