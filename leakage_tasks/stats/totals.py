"""What many will cost in all, going by a few of them: ranges that assume no shape, since costs have heavy tails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from leakage_tasks.core.arrays import FloatArray, IntArray

LEVEL = 0.8
"""Share of the samples whose range is to hold the truth."""
DRAWS = 4000
"""Random samples' ranks by which ranges are found; their random numbers are always the same."""
LISTED = 4096
"""In groups of more, ranks are drawn as if of infinitely many: that no two are alike changes nothing there."""


@dataclass(frozen=True)
class Stratum:
    """``size`` members, of which a random sample has the values ``sampled``; none is outside ``least``..``most``.

    ``unfinished`` are others of the sample, of each of which no more is known than that it has as much or more.
    ``sample`` names the sample: groups that share one, as those of several values of the same members do, are taken to
    have their dear members in common.
    """

    size: int
    sampled: tuple[float, ...]
    least: float
    most: float
    sample: str = ""
    unfinished: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.number > self.size:
            raise ValueError(f"a sample of {self.number} from {self.size}")

    @property
    def number(self) -> int:
        """Members of the sample."""
        return len(self.sampled) + len(self.unfinished)

    @property
    def likely(self) -> float:
        """The total if the others are as those sampled, unfinished ones at the most; the most without a sample.

        A member of which nothing is known may take the most, and a plan that expects less would be exceeded.
        """
        values = [*self.sampled, *(max(self.most, each) for each in self.unfinished)]
        return self.size * (float(np.mean(values)) if values else self.most)


def total_range(groups: Sequence[Stratum], level: float = LEVEL) -> tuple[float, float]:
    """The total over all members of all groups, those sampled included: low and high end.

    Each end misses in half of 1 − ``level``. Members ranked between two sampled ones are no dearer than the upper and
    no cheaper than the lower of them, those beyond all of them are at the bounds; where the sampled ones stand among
    all is as random as the sample. So the ends are quantiles of such totals: the bound of Learned-Miller and Thomas ("A
    New Confidence Interval for the Mean of a Bounded Random Variable", 2019, arXiv:1905.06208), with the ranks of a
    sample without replacement for its uniform order statistics, and summed over groups. A group without a sample is at
    its bounds.
    """
    low, high = np.zeros(DRAWS), np.zeros(DRAWS)
    ranks: dict[tuple[str, int, int], IntArray] = {}
    for number, group in enumerate(groups):
        key = (group.sample or f"#{number}", group.size, group.number)
        if key not in ranks:
            ranks[key] = _ranks(group.size, group.number, len(ranks))
        least, most = _totals(_widened(group), ranks[key])
        low, high = low + least, high + most
    miss = (1 - level) / 2
    return float(np.quantile(low, miss)), float(np.quantile(high, 1 - miss))


def _widened(group: Stratum) -> Stratum:
    """A group whose bounds hold for what was sampled, too."""
    known = (*group.sampled, *group.unfinished)
    return replace(group, least=min((group.least, *known)), most=max((group.most, *known)))


def _totals(group: Stratum, ranks: IntArray) -> tuple[FloatArray, FloatArray]:
    """The least and the most that a group may come to if its sample has these ranks ``[n, m]``, each ``[n]``."""
    least = np.sort(np.array([*group.sampled, *group.unfinished], dtype=np.float64))
    most = np.sort(np.array([*group.sampled, *[group.most] * len(group.unfinished)], dtype=np.float64))
    edges = np.concatenate([np.zeros((len(ranks), 1)), ranks, np.full((len(ranks), 1), float(group.size))], axis=1)
    upper = np.diff(edges, axis=1) @ np.append(most, group.most)
    # From a sampled one on, itself included, none is cheaper.
    starts = edges.copy()
    starts[:, 1:-1] -= 1
    lower = np.diff(starts, axis=1) @ np.append(group.least, least)
    return lower, upper


@lru_cache(maxsize=64)
def _ranks(size: int, number: int, stream: int) -> IntArray:
    """Ranks, from 1, of a random sample of so many from ``size``, ascending, ``[DRAWS, number]``."""
    random = np.random.default_rng(stream)
    if size > LISTED:
        return np.sort(random.integers(1, size + 1, (DRAWS, number)), axis=1)
    everyone = random.random((DRAWS, size))
    found: IntArray = np.sort(np.argsort(everyone, axis=1)[:, :number] + 1, axis=1)
    return found
