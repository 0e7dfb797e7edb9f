"""Proposals: rules that give each child of a node a probability, by which random descents choose.

A mixture gives each descent one proposal, by its number. A filling that a descent reaches is weighted by the inverse of
the mixture's mean probability of reaching it, which keeps estimates unbiased for any proposals (the balance heuristic
as a deterministic mixture: Veach and Guibas 1995; Owen and Zhou 2000). No weight exceeds the weight under any single
proposal divided by that proposal's share (defensive importance sampling: Hesterberg 1995).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from leakage_tasks.attacks.causal.nodes import Children, Nodes
from leakage_tasks.attacks.causal.search_tree import SearchTree
from leakage_tasks.core.arrays import FloatArray, IntArray


class ProposalDistribution(Protocol):
    """Interface of a proposal: a rule that gives each child of a node a probability."""

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float | FloatArray) -> FloatArray:
        """Return the proposal's probabilities of the children.

        Args:
            explorer: The search tree.
            nodes: n nodes.
            children: Their m children, all up to ``bound``.
            bound: Cost of the secret in bits, or that of each child ``[m]``.

        Returns:
            The probability of each child among its siblings, ``[m]``.
        """
        ...


@dataclass(frozen=True)
class Power:
    """A proposal in proportion to a power of the model's probabilities: from uniform (0) to the model's own (1)."""

    power: float

    def chances(self, explorer: SearchTree, nodes: Nodes, children: Children, bound: float | FloatArray) -> FloatArray:
        """Return the children's shares of the model's probabilities to this power, ``[m]``."""
        return shares(np.exp2(self.power * above_lowest(nodes, children)), children.parents, len(nodes))


def above_lowest(nodes: Nodes, children: Children) -> FloatArray:
    """Return the cost of each child's cheapest sibling without its own cost, ``[m]``."""
    lowest = np.full(len(nodes), np.inf)
    np.minimum.at(lowest, children.parents, children.costs)
    return lowest[children.parents] - children.costs


def shares(mass: FloatArray, parents: IntArray, nodes: int) -> FloatArray:
    """Return each child's share of the mass of all children of its parent, ``[m]``."""
    return mass / np.bincount(parents, weights=mass, minlength=nodes)[parents]


@dataclass(frozen=True)
class ProposalMixture:
    """Several proposals used in turn: draw i uses number ``pattern[i % len(pattern)]`` of ``proposals``.

    The number after the last proposal means a random filling: each filling has probability 1/|R|, and the draw follows
    its path. This bounds every weight by |R| divided by the share of random fillings, on every tokenizer.
    """

    proposals: tuple[ProposalDistribution, ...]
    pattern: tuple[int, ...]

    @property
    def uniform(self) -> int:
        """The number that means a random filling in ``pattern``."""
        return len(self.proposals)

    def of(self, numbers: range) -> IntArray:
        """Return the number of each draw's proposal, ``[n]``."""
        return np.resize(np.roll(self.pattern, -(numbers.start % len(self.pattern))), len(numbers))

    def share(self, proposal: int) -> float:
        """Return the share of the draws that use a proposal."""
        return self.pattern.count(proposal) / len(self.pattern)

    @property
    def form(self) -> Hashable:
        """Key of mixtures that differ at most in proposals that have learned from draws."""
        powers = tuple(proposal.power if isinstance(proposal, Power) else None for proposal in self.proposals)
        return powers, self.pattern

    @cached_property
    def shares(self) -> FloatArray:
        """Share of each proposal, without that of random fillings, ``[K]``."""
        return np.array([self.share(proposal) for proposal in range(self.uniform)])


MODEL_ALONE = ProposalMixture((Power(1.0),), (0,))
"""All draws use the model's own probabilities."""
POWERS = tuple(Power(power) for power in (0.0, 0.25, 0.5, 0.75, 1.0))
MODEL = len(POWERS) - 1
"""Index of the model's own probabilities in :data:`POWERS`."""
EXPLORING = ProposalMixture(POWERS, (0, 1, 2, 3, 4, 5, 4, 2))
"""The mixture for pilots, when the costs at greater depths are not yet known."""


def adaptive_mixture(proposal: ProposalDistribution) -> ProposalMixture:
    """Return a mixture with 9 of 16 draws by ``proposal``, 5 by powers of the model and 2 by random fillings."""
    ahead, random = len(POWERS), len(POWERS) + 1
    return ProposalMixture((*POWERS, proposal), _interleaved([ahead] * 9 + [0, 1, 2, 3, MODEL, random, random]))


def learned_mixture(proposal: ProposalDistribution) -> ProposalMixture:
    """Return a mixture with 12 of 16 draws by a ``proposal`` that predicts well, 2 by powers, 2 by random fillings."""
    ahead, random = len(POWERS), len(POWERS) + 1
    return ProposalMixture((*POWERS, proposal), _interleaved([ahead] * 6 + [2, random] + [ahead] * 6 + [MODEL, random]))


def model_mixture() -> ProposalMixture:
    """Return a mixture in which most draws use the model's own probabilities.

    If no draw reaches a cheap filling, these draws give the tightest bound on the count.
    """
    return ProposalMixture(POWERS, _interleaved([MODEL] * 14 + [0, len(POWERS)]))


def _interleaved(pattern: Sequence[int]) -> tuple[int, ...]:
    """Reorder the pattern so that each part of it contains all kinds of draws."""
    return tuple(pattern[7 * index % len(pattern)] for index in range(len(pattern)))
