"""Token paths of texts with characters that the tokenizer splits into several tokens, each a part of their bytes.

A walk by characters has no step for such a token, so this walk goes by bytes. Every text is represented by its UTF-8,
one character from U+0000 to U+00FF for each byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.tokens.automaton import AutomatonPaths
from leakage_tasks.targets.tokens.fixed_ends import Encode
from leakage_tasks.targets.tokens.vocabulary import as_bytes, as_text


def by_bytes(space: Space) -> Space:
    """Return the space with all texts spelled in bytes."""
    return Space(tuple(map(as_bytes, space.pieces)), tuple(map(_alphabet_by_bytes, space.slots)))


@lru_cache(maxsize=64)
def _alphabet_by_bytes(slot: Alphabet) -> Alphabet:
    return Alphabet(slot.name, tuple(map(as_bytes, slot.values)))


def on_bytes(encode: Encode) -> Encode:
    """Return a version of ``encode`` for texts spelled in bytes."""
    return lambda texts: encode([as_text(text) for text in texts])


class BytePaths(AutomatonPaths):
    """The token paths of a space made by :func:`by_bytes`; fillings are passed and returned as text."""

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        spelled = super().fillings(states, paths)
        return [[tuple(map(as_text, filling)) for filling in fillings] for fillings in spelled]

    def each_path(self, fillings: Sequence[Filling]) -> list[tuple[int, ...]]:
        return super().each_path([tuple(map(as_bytes, filling)) for filling in fillings])
