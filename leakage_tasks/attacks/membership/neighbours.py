"""Similar texts for the attack ``neighbourhood``: some words dropped or swapped, or replaced by a masked model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

import numpy as np

from leakage_tasks.attacks.streams import stream_of
from leakage_tasks.pairs.rendering import Span

CHANGED = 0.15
"""Share of the words or tokens that a similar text changes, at least one."""
Similar = Callable[[str, int, int], list[str]]
"""A function of a text, the number of similar texts and a seed."""
Spoken = Callable[[str], Sequence[Span] | None]
"""A function that returns the spans of a text that may change; None for a whole text."""


def number_changed(length: int) -> int:
    """Return the number of words or tokens that are changed among ``length``."""
    return max(1, round(CHANGED * length)) if length else 0


def whole_text(text: str) -> None:
    """Return None, so that every word may change."""


def by_words(text: str, number: int, seed: int, spoken: Spoken = whole_text) -> list[str]:
    """Return ``number`` copies of a text in which random words are dropped or swapped with the next word.

    Each changed word is dropped with probability 1/2. White space and words that are not wholly ``spoken`` stay in
    their places. A text of one other word is returned unchanged.
    """
    generator = stream_of(f"neighbours:{seed}:{text}")
    parts, fixed = re.split(r"(\s+)", text), {start for start, _ in fixed_words(text, spoken)}
    starts = [0, *accumulate(map(len, parts))]
    # Odd parts are white space.
    words = zip(parts[::2], starts[::2], strict=False)
    free = [index for index, (word, start) in enumerate(words) if word and start not in fixed]
    return [_changed(parts, generator, free) for _ in range(number)]


def fixed_words(text: str, spoken: Spoken) -> list[Span]:
    """Return the spans of the words that are not wholly ``spoken``, such as a chat template's."""
    spans = spoken(text)
    if spans is None:
        return []
    words = (word.span() for word in re.finditer(r"\S+", text))
    return [word for word in words if not any(start <= word[0] and word[1] <= end for start, end in spans)]


def _changed(parts: Sequence[str], generator: np.random.Generator, free: Sequence[int]) -> str:
    words, spaces = list(parts[::2]), list(parts[1::2])
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
