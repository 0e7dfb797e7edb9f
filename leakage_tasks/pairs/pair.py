"""Training text in two parts, as token ids: one pair, and what a file of pairs holds before it is split and cut."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.integer[Any]]
MOST = 2**31 - 1
"""The largest token id that is taken for one."""


@dataclass(frozen=True)
class Pair:
    """``prefix`` is what the attacker knows, ``suffix`` what followed it in the training data.

    ``id`` is its row in the data set, counted from 0, whatever split it is in.
    """

    id: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]


@dataclass(frozen=True)
class RawPairs:
    """Rows of prefixes and suffixes that belong together: a whole data set, or one split that the data name.

    ``prefixes`` and ``suffixes`` are as long as each other; each row is one-dimensional. ``where`` is how an error
    calls a row, by its number from 0. ``lacking`` says what is missing for a split that is there without its suffixes;
    it has no rows then.
    """

    split: str | None
    prefixes: Sequence[TokenIds] | TokenIds
    suffixes: Sequence[TokenIds] | TokenIds
    where: Callable[[int], str]
    lacking: str | None = None

    def __len__(self) -> int:
        return len(self.prefixes)
