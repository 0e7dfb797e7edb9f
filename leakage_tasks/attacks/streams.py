"""Random numbers that belong to one item of a run, so that the other items do not change them."""

import hashlib
from collections.abc import Iterable

import numpy as np

from leakage_tasks.core.arrays import FloatArray

STRIDE = 0x9E3779B97F4A7C15F39CC0605CEDC835
"""Distance of the numbers of two depths in a stream of length 2^128: an odd number, about 0.618 · 2^128."""


def stream_of(name: str) -> np.random.Generator:
    """Return the random numbers that ``name`` determines, which states a seed and the item that they are for."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


class UniformNumbers:
    """Numbers that are uniform in [0, 1), by depth and index. Other draws do not change a number."""

    def __init__(self, seed: str) -> None:
        """Set up the numbers that ``seed`` determines."""
        self._bits = np.random.PCG64(np.frombuffer(seed.encode(), dtype=np.uint8).astype(np.uint32))
        self._random, self._position = np.random.Generator(self._bits), 0

    def at(self, depth: int, indices: range) -> FloatArray:
        """Return the numbers at a depth, one for each of the consecutive ``indices``."""
        start = depth * STRIDE + indices.start
        # A number takes one step of the stream.
        self._bits.advance((start - self._position) % 2**128)
        self._position = start + len(indices)
        return self._random.random(len(indices))


class JoinedNumbers:
    """The uniform numbers of several seeds, each at its own consecutive indices, one after another."""

    def __init__(self, parts: Iterable[tuple[str, range]]) -> None:
        """Set up the numbers of each seed and its indices."""
        self._parts = [(UniformNumbers(seed), indices) for seed, indices in parts]

    def at(self, depth: int) -> FloatArray:
        """Return the numbers at a depth, one for each index of each seed."""
        return np.concatenate([numbers.at(depth, indices) for numbers, indices in self._parts])
