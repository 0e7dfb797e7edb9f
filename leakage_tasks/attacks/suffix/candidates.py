"""The suffixes drawn after one prefix, and what drawing them has shown."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import FloatArray, IntArray

_LARGEST = 1000.0
"""Exponents of 2 beyond this would be infinite or 0."""


@dataclass(frozen=True)
class Candidates:
    """The ``n`` distinct suffixes of ``m`` tokens among the draws after one prefix, no two alike.

    Costs are those of the model's own distribution (temperature 1, nothing truncated), in bits. What only some models
    can tell is None for the others: one that only writes tells no cost.
    """

    tokens: IntArray
    """Token ids, shape ``[n, m]``."""
    counts: IntArray
    """How many of the draws each was, shape ``[n]``."""
    bits: FloatArray | None
    """−log2 P(suffix | prefix), shape ``[n]``."""
    zlib: IntArray | None = None
    """Bytes of each suffix's text after compression with zlib, shape ``[n]``."""
    lowest: FloatArray | None = None
    """Smallest probability of a token, shape ``[n]``."""
    margin: FloatArray | None = None
    """Mean over tokens of P(token) − P(likeliest other token), shape ``[n]``."""
    entropy: FloatArray | None = None
    """Mean over tokens of the entropy of the next-token distribution in bits, shape ``[n]``."""
    lowered: FloatArray | None = None
    """Bits a token of the lower-cased text after the same prefix, shape ``[n]``."""
    compared: FloatArray | None = None
    """Bits a token under the model compared with, shape ``[n]``."""

    @property
    def length(self) -> int:
        """Tokens of a suffix, ``m``."""
        return self.tokens.shape[1]

    @property
    def bits_a_token(self) -> FloatArray:
        """Their costs a token, shape ``[n]``."""
        return _told(self.bits) / self.length


def calibrated_bits(candidates: Candidates) -> FloatArray:
    """−log2 of the calibrated confidence, shape ``[n]``: r·exp(−|T|·L) over its sum, in logarithms throughout."""
    bits = _told(candidates.bits) - np.log2(candidates.counts)
    above = bits - bits.min()
    # fsum rounds once, so that the order of the draws changes not even the last bit.
    return above + math.log2(math.fsum(np.exp2(-above)))


def ranked(candidates: Candidates, confidence: FloatArray) -> IntArray:
    """Indices of the candidates, surest first, shape ``[n]``.

    Of two equally sure the one with fewer bits comes first, then the one with the smaller tokens, so that nothing
    depends on the order of the draws.
    """
    bits = () if candidates.bits is None else (candidates.bits,)
    return np.lexsort((*candidates.tokens.T[::-1], *bits, -confidence)).astype(np.int64)


def _told(bits: FloatArray | None) -> FloatArray:
    assert bits is not None
    return bits


def power(exponents: FloatArray) -> FloatArray:
    """2 to the power of ``exponents``, kept from being infinite or 0."""
    return np.exp2(np.clip(exponents, -_LARGEST, _LARGEST))
