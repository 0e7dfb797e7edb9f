"""Pronounceable words that are nobody's: what ``{unique}`` becomes."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Container

CONSONANTS = "bdfgklmnprstvz"
VOWELS = "aeiou"
SYLLABLES = 3
OF_A_NONCE = 4


def unique_word(stream: random.Random, taken: Container[str]) -> str:
    """A word of consonant-vowel syllables that is not in ``taken``.

    Three syllables (343,000 words), more only where those in ``taken`` crowd the space.
    """
    tries = 0
    while True:
        syllables = SYLLABLES + tries // 100
        word = "".join(stream.choice(CONSONANTS) + stream.choice(VOWELS) for _ in range(syllables))
        if word not in taken:
            return word
        tries += 1


def nonce_of(seed: int) -> str:
    """The word by which one manifest's names differ from any other's: one of 24 million, the same for the same seed."""
    stream = random.Random(hashlib.sha256(f"nonce:{seed}".encode()).digest())
    return "".join(stream.choice(CONSONANTS) + stream.choice(VOWELS) for _ in range(OF_A_NONCE))
