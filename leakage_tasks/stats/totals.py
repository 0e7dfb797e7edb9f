"""Ranges for a total cost, estimated from a sample of the members.

For a simple random sample, no distribution is assumed, since costs have heavy tails. A sample drawn in proportion to
expected costs contains most of the tail, and its range follows from the spread of the cost per expected cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy.optimize import nnls

from leakage_tasks.core.arrays import FloatArray, IntArray

LEVEL = 0.8
"""Share of the samples whose range contains the true total."""
DRAWS = 4000
"""Number of random rank samples behind a range. Their random seed is fixed."""
LEAST_ERROR = 0.15
"""Smallest standard error of a total from expected costs, as a share of the total. A few costs may agree by chance."""
ALIKE = 0.05
"""Relative difference of chances that count as equal."""
LARGEST = 50.0
"""Largest logarithm of a factor between totals."""
LISTED = 4096
"""Maximum size of a group whose ranks are drawn without replacement; in larger groups repeated ranks are negligible."""


@dataclass(frozen=True)
class Stratum:
    """A group of ``size`` members with values between ``least`` and ``most``, and the values of a random sample.

    ``sampled`` are the known values. ``unfinished`` are lower bounds on further values of the sample. ``sample`` names
    the sample: groups with one name share their members, so a member with a high rank in one group has a high rank in
    the others. ``chances`` are the probabilities with which the members of the sample were drawn, ``sampled`` before
    ``unfinished``; empty if they were equal. If these follow from costs that are known of a part of the members alone,
    ``chance_error`` is the standard error of the mean of these costs, as a share of it.
    """

    size: int
    sampled: tuple[float, ...]
    least: float
    most: float
    sample: str = ""
    unfinished: tuple[float, ...] = ()
    chances: tuple[float, ...] = ()
    chance_error: float = 0.0

    def __post_init__(self) -> None:
        if self.number > self.size:
            raise ValueError(f"a sample of {self.number} from {self.size}")

    @property
    def number(self) -> int:
        """Number of members in the sample."""
        return len(self.sampled) + len(self.unfinished)

    @property
    def likely(self) -> float:
        """The expected total: the size times the mean, which is estimated as for exponential lifetimes with censoring.

        That is the sum of all values, bounds included, over the number of known values, at most ``most``. Without a
        known value each member counts as ``most``, so that the plan is not exceeded. With ``chances`` it is the mean of
        :attr:`estimates`.
        """
        if not self.sampled:
            return self.size * max((self.most, *self.unfinished))
        if self.chances:
            likely = self.estimates.mean() * self.number / len(self.sampled)
            return float(np.clip(likely, *self.ends))
        mean = (sum(self.sampled) + sum(self.unfinished)) / len(self.sampled)
        return self.size * (min(mean, max((self.most, *self.sampled))) if self.unfinished else mean)

    @cached_property
    def estimates(self) -> FloatArray:
        """Estimates of the total from each member of the sample alone, ``[n]``, from the ``chances``.

        A member's value, less a constant that all members have, over its chance (Horvitz and Thompson, "A
        Generalization of Sampling Without Replacement from a Finite Universe", 1952). The constant is that of the line
        through values and chances, both not negative, so the mean is also exact if the values are constant. It is 0 if
        the chances of the sample, but not of the group, are equal, since the sample then cannot show it.
        """
        values, chances = np.array([*self.sampled, *self.unfinished]), np.array(self.chances)
        # Relative errors, since a member's value varies in proportion to its size.
        line, _ = nnls(np.stack([1 / chances, np.ones(len(chances))], axis=1), values / chances)
        blind = np.ptp(chances) < ALIKE * chances.mean() and abs((1 / chances).sum() / self.size - 1) > ALIKE
        constant = 0.0 if self.unfinished or blind else line[0]
        estimates: FloatArray = constant * self.size + len(values) * (values - constant) / chances
        return estimates

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest total that the sample permits."""
        others, known = self.size - self.number, sum(self.sampled)
        least, most = known + sum(self.unfinished), known + len(self.unfinished) * self.most
        return least + others * self.least, most + others * self.most


def total_range(groups: Sequence[Stratum]) -> tuple[float, float]:
    """Return the low and the high end of the total over all members of all groups, sampled members included.

    Each end is exceeded with probability (1 − :data:`LEVEL`) / 2. A member between two sampled members has a value
    between theirs; a member beyond the sample is counted at the group's bound. The ranks of the sampled members are
    random, so each end is a quantile of totals over random ranks. This is the bound of Learned-Miller and Thomas ("A
    New Confidence Interval for the Mean of a Bounded Random Variable", 2019, arXiv:1905.06208) for sampling without
    replacement, summed over groups. A group without a sample is counted at its bounds. In a group with
    ``chances``, the logarithm of the total has errors by Student's t instead.
    """
    low, high = np.zeros(DRAWS), np.zeros(DRAWS)
    ranks: dict[tuple[str, int, int], IntArray] = {}
    errors: dict[tuple[str, int], FloatArray] = {}
    for number, group in enumerate(groups):
        name = group.sample or f"#{number}"
        if group.chances and group.number < group.size:
            sample = name, group.number
            if sample not in errors:
                errors[sample] = np.random.default_rng(len(errors)).standard_t(max(group.number - 2, 1), DRAWS)
            least, most = _totals_by_chances(_widened(group), errors[sample])
        else:
            key = (name, group.size, group.number)
            if key not in ranks:
                ranks[key] = _ranks(group.size, group.number, len(ranks))
            least, most = _totals(_widened(group), ranks[key])
        low, high = low + least, high + most
    miss = (1 - LEVEL) / 2
    return float(np.quantile(low, miss)), float(np.quantile(high, 1 - miss))


def _widened(group: Stratum) -> Stratum:
    """Return the group with its bounds widened to include the sample."""
    known = (*group.sampled, *group.unfinished)
    return replace(group, least=min((group.least, *known)), most=max((group.most, *known)))


def _totals(group: Stratum, ranks: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the greatest total of a group, each ``[n]``, if its sample has these ranks ``[n, m]``."""
    least = np.sort(np.array([*group.sampled, *group.unfinished], dtype=np.float64))
    most = np.sort(np.array([*group.sampled, *[group.most] * len(group.unfinished)], dtype=np.float64))
    edges = np.concatenate([np.zeros((len(ranks), 1)), ranks, np.full((len(ranks), 1), float(group.size))], axis=1)
    upper = np.diff(edges, axis=1) @ np.append(most, group.most)
    # From a sampled member on, itself included, no member has a lower value.
    starts = edges.copy()
    starts[:, 1:-1] -= 1
    lower = np.diff(starts, axis=1) @ np.append(group.least, least)
    return lower, upper


def _totals_by_chances(group: Stratum, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the least and the greatest total of a group, each ``[n]``, for ``errors`` ``[n]`` in standard errors."""
    # Without the correction for unfinished members, which count with the values that they reached.
    total = max(float(np.clip(group.estimates.mean(), *group.ends)), 1e-9)
    spread = float(group.estimates.std(ddof=2)) if group.number > 2 else np.inf
    error = max(np.hypot(spread / np.sqrt(group.number) / total, group.chance_error), LEAST_ERROR)
    # Costs have heavy tails: a total is too low more often, and by a larger factor, than it is too high.
    totals = np.clip(total * np.exp(np.clip(error * errors, -LARGEST, LARGEST)), *group.ends)
    return totals, np.full_like(totals, group.ends[1]) if group.unfinished else totals


@lru_cache(maxsize=64)
def _ranks(size: int, number: int, stream: int) -> IntArray:
    """Return ascending ranks, from 1, of random samples of ``number`` members from ``size``, ``[DRAWS, number]``."""
    random = np.random.default_rng(stream)
    if size > LISTED:
        return np.sort(random.integers(1, size + 1, (DRAWS, number)), axis=1)
    keys = random.random((DRAWS, size))
    ranks: IntArray = np.sort(np.argsort(keys, axis=1)[:, :number] + 1, axis=1)
    return ranks
