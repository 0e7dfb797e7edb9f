"""Similar texts for the attack ``neighbourhood``: some words dropped or swapped, or replaced by a masked model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

import numpy as np

from leakage_tasks.attacks.streams import stream_of

CHANGED = 0.15
"""Share of the words or tokens that a similar text changes, at least one."""
Similar = Callable[[str, int, int], list[str]]
"""A function of a text, the number of similar texts and a seed."""


def number_changed(length: int) -> int:
    """Return the number of words or tokens that are changed among ``length``."""
    return max(1, round(CHANGED * length)) if length else 0


def by_words(text: str, number: int, seed: int, marks: Collection[str] = ()) -> list[str]:
    """Return ``number`` copies of a text in which random words are dropped or swapped with the next word.

    Each changed word is dropped with probability 1/2. White space and words with one of ``marks`` stay in their places.
    A text of one other word is returned unchanged.
    """
    generator = stream_of(f"neighbours:{seed}:{text}")
    return [_changed(re.split(r"(\s+)", text), generator, marks) for _ in range(number)]


def is_marked(word: str, marks: Collection[str]) -> bool:
    """Return True if a word contains one of ``marks``, such as a special token of a chat template."""
    return any(mark in word for mark in marks)


def _changed(parts: Sequence[str], generator: np.random.Generator, marks: Collection[str]) -> str:
    # Odd parts are white space.
    words, spaces = list(parts[::2]), list(parts[1::2])
    free = [index for index, word in enumerate(words) if word and not is_marked(word, marks)]
    if len(free) < 2:
        return "".join(parts)
    following = dict(pairwise(free))
    chosen = set(generator.choice(free[:-1], min(number_changed(len(free)), len(free) - 1), replace=False))
    dropped: set[int] = set()
    for index in sorted(chosen):
        if generator.random() < 0.5:
            dropped.add(index)
        else:
            words[index], words[following[index]] = words[following[index]], words[index]
    kept = [(word, space) for index, (word, space) in enumerate(zip(words, [*spaces, ""], strict=True))
            if index not in dropped]  # fmt: skip
    return "".join(word + space for word, space in kept)
