"""The tokens that all texts of a space begin and end with, because an added token separates these tokens from the
slots.

A tokenizer first finds its special and added tokens, then tokenizes the text between two of them by itself. So every
filling has equal tokens from the first added token after the last slot on, and equal tokens up to the last added token
before the first slot. These tokens need not spell the text that they replace: an added token may absorb adjacent white
space, and some tokenizers add a space to the text between two added tokens, or drop a line break from it.
"""

from __future__ import annotations

import os.path
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.errors import TargetError
from leakage_tasks.targets.tokens.vocabulary import Pieces

Encode = Callable[[list[str]], list[list[int]]]
Tokens = tuple[int, ...]
FIRST_MARK, MARKS = 0xD800, 0x800
"""Surrogate characters, which never occur in text that can be encoded, and the number of them."""


@dataclass(frozen=True)
class Tail:
    """The tokens that all texts of a space end with, and the text that they replace."""

    tokens: Tokens = ()
    text: str = ""

    @property
    def marks(self) -> dict[str, int]:
        """Return the tokens in their order, each with a character that represents it."""
        return {chr(FIRST_MARK + index): token for index, token in enumerate(self.tokens)}

    def without_tail_text(self, space: Space) -> Space:
        """Return the space without the text that the tokens replace."""
        return Space((*space.pieces[:-1], space.pieces[-1].removesuffix(self.text)), space.slots)


NO_TAIL = Tail()


@dataclass(frozen=True)
class Head:
    """The tokens up to the last added token before the first slot, and the text that they replace."""

    tokens: Tokens = ()
    text: str = ""


def tail_of(space: Space, probes: Sequence[Filling], encoded: Sequence[Tokens], encode: Encode, pieces: Pieces) -> Tail:
    """Return the longest tail that begins with an added token, or an empty tail if the probes share no such tail.

    ``encoded`` are the tokens of the filled ``probes``.
    """
    backwards = os.path.commonprefix([tokens[::-1] for tokens in encoded])
    most = min(len(backwards), MARKS)
    counts = [count for count in range(most, 0, -1) if backwards[count - 1] in pieces.added]
    if not counts:
        return NO_TAIL
    texts, last = [space.fill(filling) for filling in probes], space.pieces[-1]
    begun = texts[0].removesuffix(last)
    cuts = [tuple(tokens) for tokens in encode([begun + last[:at] for at in range(len(last) + 1)])]
    for count in counts:
        at = next((index for index, tokens in enumerate(cuts) if tokens == encoded[0][:-count]), None)
        if at is not None and _same(encode([text[: len(text) - len(last) + at] for text in texts]), encoded, count):
            return Tail(encoded[0][-count:], last[at:])
    return NO_TAIL


def _same(cut: Sequence[Sequence[int]], whole: Sequence[Tokens], count: int) -> bool:
    """Return True if each token list in ``cut`` equals the corresponding list in ``whole`` without its last ``count``
    tokens."""
    return all(tuple(tokens) == full[:-count] for tokens, full in zip(cut, whole, strict=True))


def head_of(space: Space, shared: Tokens, encode: Encode, pieces: Pieces) -> Head:
    """Return the head of the tokens ``shared`` by all texts, or an empty head if they include no added token."""
    count = next((index + 1 for index in reversed(range(len(shared))) if shared[index] in pieces.added), 0)
    if count == 0:
        return Head()
    ends = range(len(space.prefix), -1, -1)
    for end, tokens in zip(ends, encode_each(encode, [space.prefix[:end] for end in ends]), strict=True):
        if tokens == shared[:count]:
            return Head(shared[:count], space.prefix[:end])
    return Head()


def encode_each(encode: Encode, texts: list[str]) -> Iterator[Tokens | None]:
    """Yield each text's tokens, or None for a text that merges with the context differently than a filled text."""
    for text in texts:
        try:
            yield tuple(encode([text])[0])
        except TargetError:
            yield None
