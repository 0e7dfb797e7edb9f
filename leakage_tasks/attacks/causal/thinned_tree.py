"""Unbiased counts of cheap fillings from a tree of partial fillings that is thinned level by level.

Of the partial fillings of a level that may still end cheap some are kept: those that matter most for certain, others
with a chance. Whoever is kept stands for 1 / chance, and the sum of what cheap fillings stand for is their number in
the mean, whatever the chances. Chances that are cut off at 1 are the optimal resampling of Fearnhead and Clifford
(2003), the estimate is stochastic enumeration (Rubinstein 2013; Vaisman and Kroese 2017). A random descent knows its
own path alone; here all of a level are compared. So where a model has learnt some fillings by heart, their beginnings
are kept in each repetition.

Several repetitions are thinned apart and read together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leakage_tasks.attacks.causal.lookahead import Lookahead
from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree, mask_of
from leakage_tasks.core.arrays import FloatArray, IntArray
from leakage_tasks.stats.intervals import positive_mean

REPETITIONS = 16
SHARES = (0.6, 0.2, 0.2)
"""How much a partial filling matters by what is expected to come of it, by the model's probability, and by itself."""
LEAST_KEPT = 4
"""Fewer of a level than that are not kept in a repetition: whole texts tell more."""


@dataclass(frozen=True)
class ThinnedCount:
    """Independent unbiased counts of fillings other than the secret as cheap as it, one a repetition (``others``).

    In each so many (``kept``) stayed of a level at the most; ``seen`` different ones were met for certain. ``ends`` are
    the same counts for a secret that costs a margin less, and a margin more, where rounding may move its cost.
    """

    others: FloatArray
    kept: int
    seen: int
    ends: tuple[ThinnedCount, ThinnedCount] | None = None

    @property
    def effective(self) -> float:
        """One over the squared relative error of the mean; 0 where nothing was met."""
        mean, spread = float(self.others.mean()), float(self.others.std(ddof=1))
        if not mean:
            return 0.0
        return math.inf if not spread else len(self.others) * (mean / spread) ** 2

    def interval(self, level: float) -> tuple[float, float]:
        """Return the ends of the mean's interval, with what rounding may do to it."""
        low, high = self.own_interval(level)
        if self.ends is None:
            return low, high
        lower, upper = self.ends
        least = lower.own_interval(level)[0] if lower.others.any() else 0.0
        return min(low, least), max(high, upper.own_interval(level)[1])

    def own_interval(self, level: float) -> tuple[float, float]:
        """Two-sided interval of the mean; what was met is a lower end.

        Upwards as if there were a repetition more, with twice the largest count: repetitions that are all alike do not
        show their spread.
        """
        low, _ = positive_mean(self.others, level)
        _, high = positive_mean(np.append(self.others, 2 * self.others.max()), level)
        return max(low, min(float(self.seen), float(self.others.mean()))), max(high, float(self.seen))


def thinned_count(
    explorer: SearchTree,
    secret: Sequence[int],
    bound: float,
    ahead: Lookahead,
    calls: int,
    seed: str,
    margin: float = 0.0,
) -> ThinnedCount | None:
    """Count within ``calls`` calls of the explorer; return None if they are too few.

    ``margin`` is by how many bits rounding may move the secret's cost.
    """
    return _Thinning(explorer, secret, bound, ahead, calls, seed, margin).count()


class _Thinning:
    """One count on its way: the nodes of a level, in parts, and what each stands for in each repetition."""

    def __init__(
        self,
        explorer: SearchTree,
        secret: Sequence[int],
        bound: float,
        ahead: Lookahead,
        calls: int,
        seed: str,
        margin: float,
    ) -> None:
        self._explorer, self._secret, self._bound, self._ahead = explorer, secret, bound + margin, ahead
        self._bounds = [bound, bound - margin, bound + margin] if margin else [bound]
        self._last = explorer.calls + calls
        self._random = np.random.default_rng(list(seed.encode()))
        self._parts: list[Nodes] = [explorer.root]
        self._weights = np.ones((REPETITIONS, 1))
        self._others = np.zeros((len(self._bounds), REPETITIONS))
        self._seen, self._kept = np.zeros(len(self._bounds), dtype=np.int64), 0

    def count(self) -> ThinnedCount | None:
        """Go down level by level."""
        for depth in range(max(1, self._explorer.paths.longest)):
            onward = self._end([self._explorer.children(nodes, self._cut) for nodes in self._parts])
            if not sum(map(len, onward)):
                break
            levels = max(1, self._explorer.paths.longest - 1 - depth)
            kept = (self._last - self._explorer.calls) // (REPETITIONS * levels)
            if kept < LEAST_KEPT:
                return None
            self._kept = max(self._kept, kept)
            self._read(onward, *self._thinned(onward, kept))
        own, *ends = (
            ThinnedCount(others, self._kept, int(seen)) for others, seen in zip(self._others, self._seen, strict=True)
        )
        return dataclasses.replace(own, ends=(ends[0], ends[1])) if ends else own

    @property
    def _cut(self) -> float:
        return self._explorer.cut(self._bound)

    def _end(self, children: Sequence[Children]) -> list[Children]:
        """Count those children that end a cheap filling; those that may go on, of each part."""
        first, onward = 0, []
        for nodes, own in zip(self._parts, children, strict=True):
            ending = own[self._explorer.ending(own, self._bound)]
            paths = self._explorer.child_paths(nodes, ending)
            found = self._explorer.paths.count(ending.states, paths) - mask_of(paths, self._secret)
            weights = self._weights[:, first + ending.parents]
            for index, limit in enumerate(self._bounds):
                inside = np.where(ending.costs <= limit, found, 0)
                self._others[index] += weights @ inside
                self._seen[index] += int(inside.sum())
            onward.append(own[self._explorer.paths.goes_on(own.states)])
            first += len(nodes)
        return onward

    def _thinned(self, onward: Sequence[Children], kept: int) -> tuple[IntArray, FloatArray]:
        """Which of all children are kept in some repetition, and what each stands for ``[repetitions, n]``."""
        first = np.cumsum([0, *map(len, self._parts)])
        parents = np.concatenate([own.parents + start for own, start in zip(onward, first, strict=False)])
        expected = np.concatenate([self._ahead.expected(own, self._bound) for own in onward])
        costs = np.concatenate([own.costs for own in onward])
        likely = np.exp2(costs.min() - costs)
        chosen, weights = [], []
        for weight in self._weights:
            there = np.flatnonzero(weight[parents])
            stands = weight[parents[there]]
            measures = (stands * expected[there], stands * likely[there], stands)
            matters = sum(share * _shares(measure) for share, measure in zip(SHARES, measures, strict=True))
            rows, chance = thin(np.asarray(matters), kept, float(self._random.random()))
            chosen.append(there[rows])
            weights.append(stands[rows] / chance)
        union = np.unique(np.concatenate(chosen))
        found = np.zeros((REPETITIONS, len(union)))
        for number, (rows, stands) in enumerate(zip(chosen, weights, strict=True)):
            found[number, np.searchsorted(union, rows)] = stands
        return union, found

    def _read(self, onward: Sequence[Children], union: IntArray, weights: FloatArray) -> None:
        """Read those that are kept, as many at once as the explorer takes."""
        parts, first = [], 0
        for nodes, own in zip(self._parts, onward, strict=True):
            taken = own[union[(union >= first) & (union < first + len(own))] - first]
            parts += [self._explorer.read_part(nodes, taken[part]) for part in self._explorer.parts(nodes, taken)]
            first += len(own)
        self._parts, self._weights = parts, weights


def thin(matters: FloatArray, kept: int, start: float) -> tuple[IntArray, FloatArray]:
    """Rows to keep, about ``kept`` of them, and the chance that each had, from how much each matters ``[n]``.

    Chances are in proportion to that and at the most 1, and rows are taken systematically from ``start``, a number in
    [0, 1): the chance of a row is as said, and neighbours are not taken together.
    """
    if len(matters) <= kept:
        return np.arange(len(matters)), np.ones(len(matters))
    chance = np.minimum(1.0, matters / _threshold(matters, kept))
    total = np.cumsum(chance)
    taken = np.floor(total - start) > np.floor(np.concatenate([[0.0], total[:-1]]) - start)
    rows = np.flatnonzero(taken)
    return rows, chance[rows]


def _threshold(matters: FloatArray, kept: int) -> float:
    """The c for which min(1, m / c) sum to ``kept``: of the largest as many are certain as exceed their share."""
    ordered = np.sort(matters)[::-1]
    rest = np.cumsum(ordered[::-1])[::-1]
    left = kept - np.arange(kept)
    certain = int(np.argmax(ordered[:kept] * left < rest[:kept]))
    return float(rest[certain] / left[certain])


def _shares(values: FloatArray) -> FloatArray:
    total = values.sum()
    return values / total if total > 0 else np.full(len(values), 1 / max(len(values), 1))
