"""Search for copies of canaries in the text of a row: whole copies, partial copies, and secrets among other words.

Cuts in the text of a row distinguish a copy that was cut from a copy that was changed.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.search import ANCHOR, Finder

RARE = 10**6
"""Size of a space from which a secret in the data is not a coincidence."""
NEAR = 4
"""Number of characters next to a secret that distinguish a piece of a copy from other words."""
HALF = "\ufffd"
"""The remainder of a character if a cut removed some of its tokens."""
Spelling = Callable[[str], str]
"""A function that normalizes texts before a comparison. It maps each character separately."""


@dataclass(frozen=True)
class Copy:
    """A canary's copy in a row's spelled text.

    ``start`` and ``end`` delimit the present part of its secret, from the first slot to the end of the last slot. A
    partial copy lacks ``missing`` characters at its end or, with ``tail``, at its beginning; ``edge`` is the offset at
    which the present part ends or begins. ``bare`` marks a secret among other words.
    """

    canary: Canary
    start: int
    end: int
    missing: int = 0
    tail: bool = False
    edge: int = 0
    bare: bool = False

    @property
    def other_end_is_short(self) -> bool:
        """True if the missing part would be too short to be found."""
        return self.missing < ANCHOR


def unchanged_text(text: str) -> str:
    """Return the text unchanged, for tokenizers whose decoding restores every text."""
    return text


def without_space_and_case(text: str) -> str:
    """Remove white space and case, for tokenizers that change them."""
    return "".join(text.casefold().split())


class CopyFinder:
    """A search for canaries in spelled texts. Among canaries with equal texts, it finds the first."""

    def __init__(self, canaries: Sequence[Canary], spelling: Spelling = unchanged_text) -> None:
        self._secrets: dict[str, tuple[Canary, int, int]] = {}
        for canary in canaries:
            before, after = canary.space.pieces[0], canary.space.pieces[-1]
            first = len(spelling(before))
            last = len(spelling(canary.text)) - len(spelling(after))
            self._secrets.setdefault(spelling(canary.text), (canary, first, last))
        self._finder = Finder(self._secrets)
        self._bare = _bare_secrets(canaries, spelling)
        self._bare_finder = Finder(self._bare)
        self._heads = _Parts(self._secrets)
        self._tails = _Parts(text[::-1] for text in self._secrets)

    def find(self, text: str) -> Iterator[Copy]:
        """Yield every copy in a row's text. A part counts only if it belongs to a single canary."""
        copies = list(self._complete_and_parts(text))
        yield from copies
        for start, secret in self._bare_finder.find(text):
            end = start + len(secret)
            if any(copy.start < end and start < copy.end for copy in copies):
                continue
            # Inside a longer word or number it would not be the secret.
            if not (text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()):
                canary, missing = self._bare[secret]
                yield Copy(canary, start, end, missing, bare=True)

    def _complete_and_parts(self, text: str) -> Iterator[Copy]:
        wholes = list(self._finder.find(text))
        for start, match in wholes:
            canary, first, last = self._secrets[match]
            yield Copy(canary, start + first, start + last)
        starts = {start for start, _ in wholes}
        for start, length, full in self._heads.find(text):
            canary, first, last = self._secrets[full]
            if start not in starts:
                missing, edge = len(full) - length, start + length
                yield Copy(canary, start + min(first, length), start + min(last, length), missing, edge=edge)
        ends = {len(text) - start - len(match) for start, match in wholes}
        for start, length, full in self._tails.find(text[::-1]):
            canary, first, last = self._secrets[full[::-1]]
            if start not in ends:
                missing = len(full) - length
                base = len(text) - start - len(full)
                begun, ended = (base + max(offset, missing) for offset in (first, last))
                yield Copy(canary, begun, ended, missing, tail=True, edge=base + missing)


def _bare_secrets(canaries: Iterable[Canary], spelling: Spelling) -> dict[str, tuple[Canary, int]]:
    """Return the unique secrets from large spaces, each with its canary and the length of the text around it."""
    secrets: dict[str, tuple[Canary, int]] = {}
    shared = set()
    for canary in canaries:
        before, after = canary.space.pieces[0], canary.space.pieces[-1]
        secret = spelling(canary.text[len(before) : len(canary.text) - len(after)])
        if canary.kind == NATURAL or canary.space.size < RARE or not secret:
            continue
        if secret in secrets:
            shared.add(secret)
        secrets[secret] = canary, len(spelling(canary.text)) - len(secret)
    return {secret: entry for secret, entry in secrets.items() if secret not in shared}


class _Parts:
    """A search for beginnings of texts, with the length of each match."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = sorted(texts)
        self._longest = max(map(len, self._texts), default=0)
        self._finder = Finder(text[:ANCHOR] for text in self._texts)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the start, the length and the text of each match that belongs to a single text."""
        for start, _ in self._finder.find(text):
            following = text[start : start + self._longest]
            # In the sorted list, texts with the longest common prefix are next to the insertion point.
            index = bisect_left(self._texts, following)
            near = self._texts[max(0, index - 2) : index + 2]
            lengths = [len(commonprefix([candidate, following])) for candidate in near]
            length = max(lengths)
            if lengths.count(length) == 1:
                yield start, length, near[lengths.index(length)]


class Edges:
    """Positions at which truncation and packing cut: ends of rows and packed examples, and special tokens."""

    def __init__(self, tokenizer: Any, spelling: Spelling) -> None:
        self._spelling = spelling
        special = sorted({spelling(token) for token in getattr(tokenizer, "all_special_tokens", ())} - {""})
        any_special = "|".join(map(re.escape, special))
        self._after = re.compile(rf"{HALF}*(?:{any_special}|$)" if special else rf"{HALF}*$")
        self._before = re.compile(rf"(?:{any_special})$" if special else r"(?!)")

    def cuts(self, copy: Copy, text: str, starts: Sequence[int]) -> bool:
        """Return True if a partial copy in a row's spelled ``text`` was cut, False if it was changed.

        ``starts`` are the offsets at which packed examples begin. If neither the row nor an example ends at the edge of
        the copy, other words follow: it was changed.
        """
        if copy.bare:
            near = _any_in(starts, copy.start - NEAR, copy.end + NEAR)
            return near or self._has_own_neighbours(copy, text)
        # The text after a cut may by chance continue like the canary.
        if copy.tail:
            return (
                copy.edge == 0 or bool(self._before.search(text[: copy.edge])) or _any_in(starts, copy.edge, copy.end)
            )
        return bool(self._after.match(text, copy.edge)) or _any_in(starts, copy.start, copy.edge)

    def _has_own_neighbours(self, copy: Copy, text: str) -> bool:
        """Return True if the characters next to a secret, within the row, are the canary's."""
        pieces = copy.canary.space.pieces
        before, after = self._spelling(pieces[0])[-NEAR:], self._spelling(pieces[-1])[:NEAR]
        left, right = text[max(0, copy.start - NEAR) : copy.start], text[copy.end : copy.end + NEAR]
        return before.endswith(left[-len(before) :]) and after.startswith(right[: len(after)])


def _any_in(starts: Sequence[int], first: int, last: int) -> bool:
    return any(first <= start <= last for start in starts)
