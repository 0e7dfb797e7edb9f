"""Ways to draw a filling from the tree of partial fillings, and mixtures of them.

A leaning says with what chance a draw goes on to each child of a node; a mixture gives every draw one leaning, by its
number. Whatever the leanings, weighting what a draw meets by the mixture's mean probability of it keeps estimates
unbiased (the balance heuristic as a deterministic mixture: Veach and Guibas 1995; Owen and Zhou 2000), and no weight
exceeds that under any one leaning over its share (defensive importance sampling: Hesterberg 1995).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from leakage_tasks.attacks.causal.search_tree import Children, Nodes, SearchTree
from leakage_tasks.core.arrays import FloatArray, IntArray


class DrawPolicy(Protocol):
    """A way to choose among a node's children."""

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """Chance of each child among its siblings, shape ``[m]``; ``children`` cost no more than ``bound``."""
        ...


@dataclass(frozen=True)
class Power:
    """In proportion to the model's probabilities to a power: all alike (0) to as the model has it (1)."""

    power: float

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float) -> FloatArray:
        """See :class:`DrawPolicy`."""
        lowest = np.full(len(nodes), np.inf)
        np.minimum.at(lowest, children.parents, children.costs)
        return shares(np.exp2(self.power * (lowest[children.parents] - children.costs)), children.parents, len(nodes))


def shares(mass: FloatArray, parents: IntArray, nodes: int) -> FloatArray:
    """Each child's share of its siblings' mass, ``[m]``."""
    return mass / np.bincount(parents, weights=mass, minlength=nodes)[parents]


@dataclass(frozen=True)
class PolicyMixture:
    """Leanings in turn: draw i has number ``pattern[i % len(pattern)]`` of ``leanings``.

    The number after the last leaning stands for a filling chosen at random, each with the same chance 1/|R|, whose
    path is then followed: it bounds every weight by |R| over its share, on every tokenizer.
    """

    leanings: tuple[DrawPolicy, ...]
    pattern: tuple[int, ...]

    @property
    def uniform(self) -> int:
        """The number that stands for fillings chosen at random."""
        return len(self.leanings)

    def of(self, numbers: range) -> IntArray:
        """The leaning of each draw, ``[n]``."""
        return np.resize(np.roll(self._pattern, -(numbers.start % len(self.pattern))), len(numbers))

    def share(self, leaning: int) -> float:
        """Share of the draws that have a leaning."""
        return self.pattern.count(leaning) / len(self.pattern)

    @cached_property
    def shares(self) -> FloatArray:
        """Share of each leaning, that of random fillings left out, ``[K]``."""
        return np.array([self.share(leaning) for leaning in range(self.uniform)])

    @cached_property
    def _pattern(self) -> IntArray:
        return np.array(self.pattern, dtype=np.int64)


AS_THE_MODEL = PolicyMixture((Power(1.0),), (0,))
"""Every draw as the model has it."""
POWERS = tuple(Power(power) for power in (0.0, 0.25, 0.5, 0.75, 1.0))
MODEL = len(POWERS) - 1
"""The place of the model's own probabilities among :data:`POWERS`."""
EXPLORING = PolicyMixture(POWERS, (0, 1, 2, 3, 4, 5, 4, 2))
"""Before anything is known of the costs further down."""


def aimed(leaning: DrawPolicy) -> PolicyMixture:
    """Most draws by ``leaning``, the others spread over all that bounds or hedges it: two in sixteen are random."""
    ahead, random = len(POWERS), len(POWERS) + 1
    return PolicyMixture((*POWERS, leaning), _interleaved([ahead] * 9 + [0, 1, 2, 3, MODEL, random, random]))


def as_the_model() -> PolicyMixture:
    """Most draws as the model has it: where none finds anything, that bounds best how much there can be."""
    return PolicyMixture(POWERS, _interleaved([MODEL] * 14 + [0, len(POWERS)]))


def _interleaved(pattern: Sequence[int]) -> tuple[int, ...]:
    """The same numbers, those of one kind not all together, so that a part of the pattern has all kinds."""
    return tuple(pattern[7 * place % len(pattern)] for place in range(len(pattern)))
