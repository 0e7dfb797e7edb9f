"""Similar texts for the attack ``neighbourhood``: some words dropped or swapped, or replaced by a masked model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from leakage_tasks.attacks.streams import stream_of

CHANGED = 0.15
"""Share of the words or tokens that a similar text changes, at least one."""
Similar = Callable[[str, int, int], list[str]]
"""A function of a text, the number of similar texts and a seed."""


def number_changed(length: int) -> int:
    """Return the number of words or tokens that are changed among ``length``."""
    return max(1, round(CHANGED * length)) if length else 0


def by_words(text: str, number: int, seed: int) -> list[str]:
    """Return ``number`` copies of a text in which random words are dropped or swapped with the next word.

    Each changed word is dropped with probability 1/2. White space stays in its place. A text of one word is returned
    unchanged.
    """
    generator = stream_of(f"neighbours:{seed}:{text}")
    return [_changed(re.split(r"(\s+)", text), generator) for _ in range(number)]


def _changed(parts: Sequence[str], generator: np.random.Generator) -> str:
    # Odd parts are white space.
    words, spaces = list(parts[::2]), list(parts[1::2])
    filled = [index for index, word in enumerate(words) if word]
    if len(filled) < 2:
        return "".join(parts)
    chosen = set(generator.choice(filled[:-1], min(number_changed(len(filled)), len(filled) - 1), replace=False))
    dropped: set[int] = set()
    for index in sorted(chosen):
        if generator.random() < 0.5:
            dropped.add(index)
        else:
            words[index], words[index + 1] = words[index + 1], words[index]
    kept = [(word, space) for index, (word, space) in enumerate(zip(words, [*spaces, ""], strict=True))
            if index not in dropped]  # fmt: skip
    return "".join(word + space for word, space in kept)
