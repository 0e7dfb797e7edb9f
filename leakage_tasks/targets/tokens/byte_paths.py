"""Token paths of texts with characters that the tokenizer writes as several tokens, each some of their bytes.

A walk by characters has no step for such a token. This one goes by bytes: every text stands as its UTF-8, a character
from U+0000 to U+00FF for each byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from leakage_tasks.canaries.alphabets import Alphabet
from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray
from leakage_tasks.targets.tokens.automaton import AutomatonPaths, Encode

BYTE = re.compile(r"<0x[0-9A-F]{2}>")
"""How tokenizers with byte fallback write the token of a byte."""
_SEEN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_LETTERS = {chr(byte): chr(byte) for byte in _SEEN} | {
    chr(256 + place): chr(byte) for place, byte in enumerate(sorted(set(range(256)).difference(_SEEN)))
}
"""The letter by which GPT-2's byte-level encoding writes a byte, and that byte."""


def as_bytes(text: str) -> str:
    """The UTF-8 of a text, a character for each byte."""
    return text.encode().decode("latin-1")


def as_text(spelled: str) -> str:
    """Inverse of :func:`as_bytes`; bytes that are no UTF-8 are replaced."""
    return spelled.encode("latin-1").decode(errors="replace")


def by_bytes(space: Space) -> Space:
    """The same space, its texts by their bytes."""
    slots = {id(slot): Alphabet(slot.name, tuple(map(as_bytes, slot.values))) for slot in space.slots}
    return Space(tuple(map(as_bytes, space.pieces)), tuple(slots[id(slot)] for slot in space.slots))


def on_bytes(encode: Encode) -> Encode:
    """``encode`` of texts by their bytes."""
    return lambda texts: encode([as_text(text) for text in texts])


def parts_of_characters(tokenizer: Any, tokens: Iterable[int]) -> dict[int, str]:
    """Those of ``tokens`` that stand for bytes, with these bytes."""
    chosen = list(tokens)
    named = zip(chosen, tokenizer.convert_ids_to_tokens(chosen), strict=True)
    found = {token: _bytes_of(name) for token, name in named}
    return {token: spelled for token, spelled in found.items() if spelled}


def _bytes_of(name: str | None) -> str:
    if name is None:
        return ""
    if BYTE.fullmatch(name):
        return chr(int(name[3:5], 16))
    return "".join(_LETTERS[letter] for letter in name) if _LETTERS.keys() >= set(name) else ""


class BytePaths(AutomatonPaths):
    """The walk of a space :func:`by_bytes`, whose fillings are told and taken as text."""

    def fillings(self, states: IntArray, paths: IntArray) -> list[list[Filling]]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        found = super().fillings(states, paths)
        return [[tuple(map(as_text, filling)) for filling in each] for each in found]

    def path(self, filling: Filling) -> tuple[int, ...]:
        """See :class:`~leakage_tasks.targets.protocols.Paths`."""
        return super().path(tuple(map(as_bytes, filling)))
