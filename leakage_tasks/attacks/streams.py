"""Random numbers that belong to one item of a run, so that the other items do not change them."""

import hashlib

import numpy as np


def stream_of(name: str) -> np.random.Generator:
    """Return the random numbers that ``name`` determines, which states a seed and the item that they are for."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
