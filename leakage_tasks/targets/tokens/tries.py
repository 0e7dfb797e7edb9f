"""Tries of small spaces, each laid out once for all canaries whose templates differ in the text before the slots."""

from __future__ import annotations

import re
from collections.abc import Hashable

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens.trie import Encode, TriePaths

PROBES = 64
KEPT = 4
"""Tries that are remembered: those of a few templates."""
WORTH = 4
"""So many times as many fillings as probes are to be there before a trie is taken from another space."""


class Tries:
    """Lays out small spaces.

    Thousands of canaries of one template share the slots, what stands after them, and the word before the first one:
    that is what a trie is made of. What comes earlier does not change the tokens of a filling, which probes prove for
    each space: all must end with the tokens that the filling has in the trie, after the same tokens. Otherwise the
    space gets a trie of its own.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, TriePaths] = {}

    def paths(self, space: Space, encode: Encode, alone: Encode | None = None) -> TriePaths:
        """The trie of ``space``; ``alone`` encodes texts that stand after nothing, where ``encode`` puts some before.

        Raises TargetError as :class:`TriePaths`.
        """
        kind = space.slots, space.pieces[1:], _last_word(space.prefix)
        known = self._made.pop(kind, None) or _after_last_word(space, alone or encode)
        found = None if known is None else _moved(known, space, encode)
        self._made[kind] = made = found or TriePaths(space, encode)
        if len(self._made) > KEPT:
            del self._made[next(iter(self._made))]
        return made


def probes_of(space: Space) -> list[Filling]:
    """Random fillings, and some in which every value of every slot occurs."""
    longest = max(map(len, space.slots))
    cycled = [
        tuple(slot.values[(turn + 7 * index) % len(slot)] for index, slot in enumerate(space.slots))
        for turn in range(longest)
    ]
    return space.sample(PROBES, "probes") + cycled


def _after_last_word(space: Space, encode: Encode) -> TriePaths | None:
    """The trie of a ``space`` whose text begins with the last word before its slots; None where there is none."""
    if _small(space):
        return None
    try:
        return TriePaths(Space((_last_word(space.prefix), *space.pieces[1:]), space.slots), encode)
    except TargetError:
        return None


def _small(space: Space) -> bool:
    """Whether encoding all fillings takes hardly longer than probes do."""
    return WORTH * (PROBES + max(map(len, space.slots))) > space.size


def _moved(trie: TriePaths, space: Space, encode: Encode) -> TriePaths | None:
    """The ``trie`` after the text before the slots of ``space``; None where probes have other tokens there."""
    if _small(space):
        return None
    probes = probes_of(space)
    encoded = [tuple(tokens) for tokens in encode([space.fill(filling) for filling in probes])]
    paths = [trie.path(filling) for filling in probes]
    before = encoded[0][: len(encoded[0]) - len(paths[0])]
    if any(tokens != before + path for tokens, path in zip(encoded, paths, strict=True)):
        return None
    return trie.after(before, space)


def _last_word(text: str) -> str:
    """The end of ``text`` from the white space on that its last word stands after; all of it where there is none."""
    word = re.search(r"\s\S+\s*\Z", text)
    return word.group() if word else text
