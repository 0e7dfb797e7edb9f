"""One piece of training text in two parts, as token ids."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """``prefix`` is what the attacker knows, ``suffix`` what followed it in the training data.

    ``id`` is its row in the data set, counted from 0, whatever split it is in.
    """

    id: int
    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
