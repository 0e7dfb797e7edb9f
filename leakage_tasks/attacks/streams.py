"""Random numbers that belong to one item of a run, so that the other items do not change them."""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from leakage_tasks.core.arrays import FloatArray

GOLDEN = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio, and odd: the distance of numbers that are mixed to random bits."""


def stream_of(name: str) -> np.random.Generator:
    """Return the random numbers that ``name`` determines, which states a seed and the item that they are for."""
    return np.random.default_rng(_hash(name, 16))


class UniformNumbers:
    """Numbers that are uniform in [0, 1), by seed, depth and index. Other draws do not change a number.

    Each is a hash of its seed, depth and index (SplitMix64: Steele, Lea and Flood 2014), so that the numbers of many
    seeds are computed together.
    """

    def __init__(self, parts: Sequence[tuple[str, range]]) -> None:
        """Set up the numbers of each seed at its own consecutive indices, one after another."""
        self._keys = np.array([_hash(seed, 8) for seed, _ in parts], dtype=np.uint64)
        self._lengths = [len(indices) for _, indices in parts]
        indices = np.concatenate([np.arange(indices.start, indices.stop, dtype=np.uint64) for _, indices in parts])
        self._steps = indices * np.uint64(GOLDEN)

    def at(self, depth: int) -> FloatArray:
        """Return the numbers at a depth, one for each index of each seed."""
        keys = _mixed(self._keys + np.uint64(depth * GOLDEN % 2**64))
        bits = _mixed(np.repeat(keys, self._lengths) + self._steps)
        numbers: FloatArray = (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return numbers


def _hash(name: str, size: int) -> int:
    """Return a hash of ``size`` bytes."""
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:size], "big")


def _mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return bits of which each depends on all of those given; distinct numbers stay distinct."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(31))
