"""Copies of canaries in the text of one row, whole ones and those of which a part is missing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os.path import commonprefix

from leakage_tasks.canaries.canary import Canary
from leakage_tasks.canaries.search import ANCHOR, Finder

Spelling = Callable[[str], str]
"""What texts are compared by; of a text in pieces it is the pieces' spellings in their order."""


@dataclass(frozen=True)
class Copy:
    """A canary's copy in a row's spelled text.

    ``start`` and ``end`` are characters of what is there of its secret: from its first slot to the end of its last one.
    Of one that ends too early, or with ``tail`` begins too late, ``missing`` characters are not there.
    """

    canary: Canary
    start: int
    end: int
    missing: int = 0
    tail: bool = False

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

    def __init__(self, canaries: Iterable[Canary], spelling: Spelling = as_it_is) -> None:
        self._secrets: dict[str, tuple[Canary, int, int]] = {}
        for canary in canaries:
            before, after = canary.space.pieces[0], canary.space.pieces[-1]
            first = len(spelling(before))
            last = len(spelling(canary.text)) - len(spelling(after))
            self._secrets.setdefault(spelling(canary.text), (canary, first, last))
        self._finder = Finder(self._secrets)
        self._heads = _Parts(self._secrets)
        self._tails = _Parts(text[::-1] for text in self._secrets)

    def find(self, text: str) -> Iterator[Copy]:
        """Every copy in a row's text; of a part, all that fits, if it fits one canary alone."""
        wholes = list(self._finder.find(text))
        for start, found in wholes:
            canary, first, last = self._secrets[found]
            yield Copy(canary, start + first, start + last)
        starts = {start for start, _ in wholes}
        for start, length, full in self._heads.find(text):
            canary, first, last = self._secrets[full]
            if start not in starts:
                yield Copy(canary, start + min(first, length), start + min(last, length), len(full) - length)
        ends = {len(text) - start - len(found) for start, found in wholes}
        for start, length, full in self._tails.find(text[::-1]):
            canary, first, last = self._secrets[full[::-1]]
            if start not in ends:
                missing = len(full) - length
                base = len(text) - start - len(full)
                begun, ended = (base + max(place, missing) for place in (first, last))
                yield Copy(canary, begun, ended, missing, tail=True)


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
