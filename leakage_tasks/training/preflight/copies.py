"""Copies of canaries in the text of one row: whole ones, those with a part missing, and secrets in other words."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import commonprefix

from leakage_tasks.attacks.coarse import NATURAL
from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.search import ANCHOR, Finder

RARE = 10**6
"""Of spaces of so many secrets, one that stands in the data is no coincidence."""
Spelling = Callable[[str], str]
"""What texts are compared by; of a text in pieces it is the pieces' spellings in their order."""


@dataclass(frozen=True)
class Copy:
    """A canary's copy in a row's spelled text.

    ``start`` and ``end`` are characters of what is there of its secret: from its first slot to the end of its last one.
    Of one that ends too early, or with ``tail`` begins too late, ``missing`` characters are not there; ``edge`` is
    where what is there ends or begins. ``bare`` is a secret with other words around.
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
        """Whether what is missing would be too short to be found by itself."""
        return self.missing < ANCHOR


def as_it_is(text: str) -> str:
    """The spelling of tokenizers that give back every text."""
    return text


def squeezed(text: str) -> str:
    """The spelling of tokenizers that change case or white space."""
    return "".join(text.casefold().split())


class CopyFinder:
    """Looks for canaries in texts that are spelled already. Canaries of one text are found as one, the first."""

    def __init__(self, canaries: Sequence[Canary], spelling: Spelling = as_it_is) -> None:
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
        """Every copy in a row's text; of a part, all that fits, if it fits one canary alone."""
        found = list(self._complete_and_parts(text))
        yield from found
        for start, secret in self._bare_finder.find(text):
            end = start + len(secret)
            if any(copy.start < end and start < copy.end for copy in found):
                continue
            # Part of a longer word or number it would be something else.
            if not (text[max(0, start - 1) : start].isalnum() or text[end : end + 1].isalnum()):
                canary, missing = self._bare[secret]
                yield Copy(canary, start, end, missing, bare=True)

    def _complete_and_parts(self, text: str) -> Iterator[Copy]:
        wholes = list(self._finder.find(text))
        for start, found in wholes:
            canary, first, last = self._secrets[found]
            yield Copy(canary, start + first, start + last)
        starts = {start for start, _ in wholes}
        for start, length, full in self._heads.find(text):
            canary, first, last = self._secrets[full]
            if start not in starts:
                missing, edge = len(full) - length, start + length
                yield Copy(canary, start + min(first, length), start + min(last, length), missing, edge=edge)
        ends = {len(text) - start - len(found) for start, found in wholes}
        for start, length, full in self._tails.find(text[::-1]):
            canary, first, last = self._secrets[full[::-1]]
            if start not in ends:
                missing = len(full) - length
                base = len(text) - start - len(full)
                begun, ended = (base + max(place, missing) for place in (first, last))
                yield Copy(canary, begun, ended, missing, tail=True, edge=base + missing)


def _bare_secrets(canaries: Iterable[Canary], spelling: Spelling) -> dict[str, tuple[Canary, int]]:
    """Spelled secrets that nothing else spells so soon, each with its canary and how long the text around it is."""
    found: dict[str, tuple[Canary, int]] = {}
    shared = set()
    for canary in canaries:
        before, after = canary.space.pieces[0], canary.space.pieces[-1]
        secret = spelling(canary.text[len(before) : len(canary.text) - len(after)])
        if canary.kind == NATURAL or canary.space.size < RARE or not secret:
            continue
        if secret in found:
            shared.add(secret)
        found[secret] = canary, len(spelling(canary.text)) - len(secret)
    return {secret: each for secret, each in found.items() if secret not in shared}


class _Parts:
    """Looks for where texts begin, and how far each goes on."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = sorted(texts)
        self._longest = max(map(len, self._texts), default=0)
        self._finder = Finder(text[:ANCHOR] for text in self._texts)

    def find(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Where a text begins, how many of its characters are there, and which it is: where that is one alone."""
        for start, _ in self._finder.find(text):
            there = text[start : start + self._longest]
            # In sorted texts, those that begin like it for longest stand around its own place.
            place = bisect_left(self._texts, there)
            near = self._texts[max(0, place - 2) : place + 2]
            lengths = [len(commonprefix([each, there])) for each in near]
            length = max(lengths)
            if lengths.count(length) == 1:
                yield start, length, near[lengths.index(length)]
