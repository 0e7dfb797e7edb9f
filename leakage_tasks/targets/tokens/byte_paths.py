"""Token paths of texts with characters that the tokenizer writes as several tokens, each some of their bytes.

A walk by characters has no step for such a token. This one goes by bytes: every text stands as its UTF-8, a character
from U+0000 to U+00FF for each byte.
"""

from __future__ import annotations

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.tokens.automaton import AutomatonPaths
from leakage_tasks.targets.tokens.fixed_ends import Encode
from leakage_tasks.targets.tokens.vocabulary import as_bytes, as_text


def by_bytes(space: Space) -> Space:
    """The same space, its texts by their bytes."""
    slots = {id(slot): Alphabet(slot.name, tuple(map(as_bytes, slot.values))) for slot in space.slots}
    return Space(tuple(map(as_bytes, space.pieces)), tuple(slots[id(slot)] for slot in space.slots))


def on_bytes(encode: Encode) -> Encode:
    """``encode`` of texts by their bytes."""
    return lambda texts: encode([as_text(text) for text in texts])


class BytePaths(AutomatonPaths):
    """The walk of a space :func:`by_bytes`, whose fillings are told and taken as text."""

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        found = super().fillings(states, paths)
        return [[tuple(map(as_text, filling)) for filling in each] for each in found]

    def path(self, filling: Filling) -> tuple[int, ...]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return super().path(tuple(map(as_bytes, filling)))
