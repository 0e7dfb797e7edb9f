"""Distinct suffixes drawn from a model, with the model's costs and statistics of their tokens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class SampledSuffixes:
    """The ``n`` distinct suffixes of ``L`` tokens among ``K`` draws after one prefix, in order of their first draw."""

    tokens: IntArray
    """``[n, L]``."""
    of_draw: IntArray
    """Index of each draw's suffix, ``[K]``."""
    own: FloatArray | None
    """Cost in bits of each token under the model's own distribution, ``[n, L]``; None if it is unknown."""
    drawn: FloatArray | None
    """Costs under the sampling scheme, ``[n, L]``; equal to ``own`` for searches."""
    entropy: FloatArray | None
    """Entropy of the model's own next-token distribution in bits, ``[n, L]``; None if it is unknown."""
    margin: FloatArray | None
    """Token's probability minus that of the most likely other token, ``[n, L]``; None if it is unknown."""
    nodes: int = 0
    """Number of token positions computed."""
    totals_only: bool = False
    """True if only a suffix's total cost is known, and is spread evenly over its tokens."""

    def first(self, samples: int, length: int) -> tuple[IntArray, IntArray]:
        """Return the distinct prefixes of ``length`` tokens among the first ``samples`` draws.

        Returns the index of a suffix that begins with each prefix, and the number of its draws, in order of first draw.
        """
        used = self.of_draw[:samples]
        _, first, counts = np.unique(self.tokens[used, :length], axis=0, return_index=True, return_counts=True)
        order = np.argsort(first)
        return used[first[order]], counts[order]


class PartialDraws:
    """Tokens and figures of every row of a growing batch so far, per step: ``[rows, length]`` each."""

    FIGURES = ("own", "drawn", "entropy", "margin")
    """Names of the rows of ``figures``."""

    def __init__(self, tokens: IntArray, figures: FloatArray) -> None:
        self.tokens = tokens
        self.figures = figures

    @classmethod
    def empty(cls, rows: int, length: int) -> PartialDraws:
        """Create an object for ``rows`` rows that will have ``length`` tokens."""
        return cls(np.zeros((rows, length), dtype=np.int64), np.zeros((len(cls.FIGURES), rows, length)))

    def branch(self, parents: IntArray) -> None:
        """Add a copy of each of ``parents`` after the last row."""
        self.tokens = np.concatenate([self.tokens, self.tokens[parents]])
        self.figures = np.concatenate([self.figures, self.figures[:, parents]], axis=1)

    def write(self, step: int, rows: IntArray, tokens: IntArray, figures: FloatArray) -> None:
        """Set the tokens ``[n]`` and figures ``[4, n]`` of ``rows`` ``[n]`` at one step."""
        self.tokens[rows, step] = tokens
        self.figures[:, rows, step] = figures

    def select(self, rows: IntArray) -> PartialDraws:
        """Return a copy with only ``rows``."""
        return PartialDraws(self.tokens[rows], self.figures[:, rows])


@dataclass(frozen=True)
class SuffixCosts:
    """Cost in bits of each token of a suffix ``[L]`` under the model's own distribution and the sampling scheme.

    ``drawn`` is infinite for a token that the scheme cannot draw, and None for beam search, which is not a
    distribution. ``top1`` is True for a token that is the model's first choice after the true tokens before it; None if
    the model does not report it.
    """

    own: FloatArray
    drawn: FloatArray | None
    top1: BoolArray | None = None


@dataclass(frozen=True)
class NearBounds:
    """Bounds on the probability that one draw is at most ``edits`` token edits from the true suffix.

    ``bits`` is −log2 of the lower bound, ``high_bits`` of the upper bound; infinite for a probability of 0. ``nodes``
    is the number of next-token distributions computed.
    """

    edits: int
    bits: float
    high_bits: float
    nodes: int
