"""Suffixes drawn after one prefix, with their counts and costs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from leakage_tasks.core.arrays import FloatArray, IntArray

_LARGEST = 1000.0
"""Largest exponent of 2; beyond it the power would be infinite or 0."""


@dataclass(frozen=True)
class Candidates:
    """The ``n`` distinct suffixes of ``m`` tokens among the draws after one prefix.

    Costs are by the model's own distribution (temperature 1, no truncation), in bits. Fields that a model cannot
    provide are None; a model that only generates text provides no costs.
    """

    tokens: IntArray
    """Token ids, shape ``[n, m]``."""
    counts: IntArray
    """Number of draws of each suffix, shape ``[n]``."""
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
    """Bits per token of the lower-cased text after this prefix, shape ``[n]``."""
    compared: FloatArray | None = None
    """Bits per token under the second model, shape ``[n]``."""

    @property
    def length(self) -> int:
        """Number of tokens of a suffix, ``m``."""
        return self.tokens.shape[1]

    @property
    def bits_a_token(self) -> FloatArray:
        """Bits per token of each suffix, shape ``[n]``."""
        return _known_bits(self.bits) / self.length


def calibrated_bits(candidates: Candidates) -> FloatArray:
    """Return −log2 of the calibrated confidence r·exp(−|T|·L) / sum, shape ``[n]``, computed in logarithms."""
    bits = _known_bits(candidates.bits) - np.log2(candidates.counts)
    above = bits - bits.min()
    # fsum rounds once, so that the order of the draws does not even change the last bit.
    return above + math.log2(math.fsum(np.exp2(-above)))


def ranked(candidates: Candidates, confidence: FloatArray) -> IntArray:
    """Return the candidates' indices by decreasing confidence, shape ``[n]``.

    Ties are ordered by bits, then by token ids, so that the result does not depend on the order of the draws.
    """
    bits = () if candidates.bits is None else (candidates.bits,)
    return np.lexsort((*candidates.tokens.T[::-1], *bits, -confidence)).astype(np.int64)


def _known_bits(bits: FloatArray | None) -> FloatArray:
    assert bits is not None
    return bits


def power(exponents: FloatArray) -> FloatArray:
    """Return 2 to the power of ``exponents``, clipped so that it is neither infinite nor 0."""
    return np.exp2(np.clip(exponents, -_LARGEST, _LARGEST))
