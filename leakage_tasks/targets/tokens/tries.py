"""Tries of small spaces, shared by canaries whose templates differ only in the text before the slots."""

from __future__ import annotations

import re
from collections.abc import Hashable
from functools import lru_cache

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens.trie import Encode, TriePaths

PROBES = 64
KEPT = 4
"""Number of tries that are cached."""
WORTH = 4
"""Minimum ratio of the number of fillings to twice the probes for reusing another space's trie."""


class Tries:
    """A cache of the tries of small spaces.

    Thousands of canaries of one template share the slots, the text after them, and the word before the first slot; the
    trie depends on these alone. The earlier text usually does not change the tokens of a filling. Probes check this for
    each space: their tokens must be one shared prefix and then the filling's tokens in the trie. Otherwise the space
    gets its own trie.
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, TriePaths] = {}

    def paths(self, space: Space, encode: Encode, alone: Encode | None = None) -> TriePaths:
        """Return the trie of ``space``. Raises TargetError as :class:`TriePaths`.

        ``alone`` encodes texts with nothing before them; needed if ``encode`` puts a context before each text.
        """
        kind = space.slots, space.pieces[1:], last_word(space.prefix)
        known = self._made.pop(kind, None) or _afterlast_word(space, alone or encode)
        moved = None if known is None else _moved(known, space, encode)
        self._made[kind] = made = moved or TriePaths(space, encode)
        if len(self._made) > KEPT:
            del self._made[next(iter(self._made))]
        return made


def probes_of(space: Space) -> list[Filling]:
    """Return random fillings, and fillings in which every value of every slot occurs."""
    return _probes_of(space.slots)


@lru_cache(maxsize=KEPT)
def _probes_of(slots: tuple[Alphabet, ...]) -> list[Filling]:
    longest = max(map(len, slots))
    cycled = [
        tuple(slot.values[(turn + 7 * index) % len(slot)] for index, slot in enumerate(slots))
        for turn in range(longest)
    ]
    return Space(("",) * (len(slots) + 1), slots).sample(PROBES, "probes") + cycled


def _afterlast_word(space: Space, encode: Encode) -> TriePaths | None:
    """Return the trie of ``space`` with only the last word of the text before its slots, or None if that fails."""
    if _small(space):
        return None
    try:
        return TriePaths(Space((last_word(space.prefix), *space.pieces[1:]), space.slots), encode)
    except TargetError:
        return None


def _small(space: Space) -> bool:
    """Return True if encoding all fillings takes little longer than encoding the probes."""
    return WORTH * (PROBES + max(map(len, space.slots))) > space.size


def _moved(trie: TriePaths, space: Space, encode: Encode) -> TriePaths | None:
    """Return ``trie`` with the prefix of ``space``, or None if the probes' tokens do not end as in the trie."""
    if _small(space):
        return None
    probes = probes_of(space)
    encoded = [tuple(tokens) for tokens in encode([space.fill(filling) for filling in probes])]
    paths = [trie.path(filling) for filling in probes]
    before = encoded[0][: len(encoded[0]) - len(paths[0])]
    if any(tokens != before + path for tokens, path in zip(encoded, paths, strict=True)):
        return None
    return trie.after(before, space)


def last_word(text: str) -> str:
    """Return the end of ``text`` from the white space before its last word, or all of it without such white space."""
    word = re.search(r"\s\S+\s*\Z", text)
    return word.group() if word else text
