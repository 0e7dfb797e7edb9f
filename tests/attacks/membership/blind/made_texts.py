"""Made-up texts of two classes that differ in a planted way, or not at all."""

from __future__ import annotations

import random

_LETTERS = "abcdefghijklmnop"
_WORDS = ["".join(random.Random(number).choices(_LETTERS, k=2 + number % 7)) for number in range(3000)]
_WEIGHTS = [1 / (number + 1) for number in range(3000)]
MEMBER_YEARS, LATER_YEARS = (1990, 2019), (2022, 2024)


def made_text(stream: random.Random, words: int = 40, years: tuple[int, int] = MEMBER_YEARS, extra: str = "") -> str:
    """A text with words by Zipf's law, and in most cases a year."""
    chosen = stream.choices(_WORDS, _WEIGHTS, k=stream.randint(words // 2, words))
    if stream.random() < 0.9:
        chosen.insert(stream.randrange(len(chosen)), str(stream.randint(*years)))
    return " ".join([*chosen, *([extra] if extra else [])])


def made_sets(number: int, seed: int = 0, years: tuple[int, int] = MEMBER_YEARS, words: int = 40) -> list[str]:
    """``number`` members, then as many non-members with years from ``years`` and up to ``words`` words."""
    stream = random.Random(seed)
    members = [made_text(stream) for _ in range(number)]
    return [*members, *(made_text(stream, words, years) for _ in range(number))]
