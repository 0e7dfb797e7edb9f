"""Suffixes drawn from a model, each distinct one once, with what was seen of the model on the way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class SampledSuffixes:
    """The ``n`` distinct suffixes of ``L`` tokens among ``K`` draws after one prefix, in order of their first draw."""

    tokens: IntArray
    """``[n, L]``."""
    of_draw: IntArray
    """Which suffix each draw is, ``[K]``."""
    own: FloatArray | None
    """Costs in bits a token under the model's own distribution, ``[n, L]``; None of a model that only writes."""
    drawn: FloatArray | None
    """Those under the sampling scheme, ``[n, L]``; ``own`` for searches."""
    entropy: FloatArray | None
    """That of the model's own next-token distribution in bits, ``[n, L]``; None where the model does not tell."""
    margin: FloatArray | None
    """The token's probability less that of the likeliest other one, ``[n, L]``; None where the model does not tell."""
    nodes: int = 0
    """Token positions that were computed."""
    totals_only: bool = False
    """Whether a suffix's cost is known as a whole alone, and spread evenly over its tokens."""

    def first(self, samples: int, length: int) -> tuple[IntArray, IntArray]:
        """The distinct beginnings of ``length`` tokens among the first ``samples`` draws.

        Returns a suffix (row) that begins with each, and how many of the draws each was, in order of first draw.
        """
        used = self.of_draw[:samples]
        _, first, counts = np.unique(self.tokens[used, :length], axis=0, return_index=True, return_counts=True)
        order = np.argsort(first)
        return used[first[order]], counts[order]


class PartialDraws:
    """What is known of every row of a growing batch so far: tokens and figures a step, ``[rows, length]`` each."""

    FIGURES = ("own", "drawn", "entropy", "margin")
    """In the order of their rows in ``figures``."""

    def __init__(self, tokens: IntArray, figures: FloatArray) -> None:
        self.tokens = tokens
        self.figures = figures

    @classmethod
    def empty(cls, rows: int, length: int) -> PartialDraws:
        """Nothing known of ``rows`` rows that will have ``length`` tokens."""
        return cls(np.zeros((rows, length), dtype=np.int64), np.zeros((len(cls.FIGURES), rows, length)))

    def branch(self, parents: IntArray) -> None:
        """Add a copy of each of ``parents`` after the last row."""
        self.tokens = np.concatenate([self.tokens, self.tokens[parents]])
        self.figures = np.concatenate([self.figures, self.figures[:, parents]], axis=1)

    def write(self, step: int | IntArray, rows: IntArray, tokens: IntArray, figures: FloatArray) -> None:
        """Set the tokens ``[n]`` and figures ``[4, n]`` of one step, or of one each, of ``rows`` ``[n]``."""
        self.tokens[rows, step] = tokens
        self.figures[:, rows, step] = figures

    def select(self, rows: IntArray) -> PartialDraws:
        """A copy with ``rows`` alone."""
        return PartialDraws(self.tokens[rows], self.figures[:, rows])


@dataclass(frozen=True)
class SuffixCosts:
    """Costs in bits of each token of a suffix ``[L]``: under the model's own distribution and under the sampling
    scheme.

    ``drawn`` is infinite for a token the scheme cannot draw, and None for beam search, which is no distribution.
    """

    own: FloatArray
    drawn: FloatArray | None
