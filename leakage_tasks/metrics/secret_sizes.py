"""The sizes of the spaces of a run's secrets, as results state them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_ROUNDED = 0.005
"""Largest difference of a stated log2|R| from the true value."""


def stated_sizes(tested: Mapping[str, Any]) -> list[float]:
    """Return the stated log2|R| of the smallest and the largest space, rounded to two digits; [] for other values."""
    sizes = tested.get("log2_size")
    listed = sizes if isinstance(sizes, list | tuple) else []
    return [size for size in listed if isinstance(size, int | float) and size >= 0]


def chance_of_guess(tested: Mapping[str, Any]) -> float | None:
    """Return the probability that a random guess is right, in the smallest space."""
    least = min(stated_sizes(tested), default=None)
    return None if least is None else min(1.0, 2.0 ** (_ROUNDED - least))


def largest_size(tested: Mapping[str, Any]) -> float:
    """Return log2|R| of the largest space; infinity if it is not stated."""
    return max((size + _ROUNDED for size in stated_sizes(tested)), default=math.inf)
