"""Texts of made-up targets, as an array with one entry per text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np


class TextArray(np.ndarray):
    """An array ``[n, …]`` that is selected by an index and joined, as texts of a target are."""

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> Self:
        """Concatenate texts."""
        return np.concatenate(parts).view(cls)


def text_array(values: np.ndarray) -> TextArray:
    """Return values as texts."""
    return np.asarray(values).view(TextArray)
