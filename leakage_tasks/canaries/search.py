"""Finding canaries' texts in a dataset, as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from os.path import commonprefix

ANCHOR = 12


@dataclass(frozen=True)
class Span:
    """An occurrence: ``start`` to ``end`` in characters of the concatenated texts.

    ``whole`` says that it is a row (line, chat turn) of its own, not part of a longer one.
    """

    start: int
    end: int
    text: str
    whole: bool


class Finder:
    """Looks for many texts at once; where one begins another, the longer counts."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = set(texts)
        self.lengths = sorted({len(text) for text in self.texts}, reverse=True)
        self._anchor = re.compile(_any_of(sorted({text[:ANCHOR] for text in self.texts})) or r"(?!)")

    @property
    def longest(self) -> int:
        """Characters of the longest text."""
        return self.lengths[0] if self.lengths else 0

    def find(self, text: str, stop: int | None = None) -> Iterator[tuple[int, str]]:
        """Every occurrence that starts before ``stop``: its place and the text found, overlapping ones too."""
        end = len(text) if stop is None else stop
        hit = self._anchor.search(text)
        while hit and hit.start() < end:
            start = hit.start()
            for length in self.lengths:
                if text[start : start + length] in self.texts:
                    yield start, text[start : start + length]
                    break
            hit = self._anchor.search(text, start + 1)


def _any_of(words: list[str]) -> str:
    """A pattern for any of the sorted words, branching letter by letter: a flat list is slow when it is long."""
    if not words or not words[0]:
        return ""
    branches = []
    for _, group in groupby(words, key=itemgetter(0)):
        same = list(group)
        shared = commonprefix(same)
        branches.append(re.escape(shared) + _any_of([word[len(shared) :] for word in same]))
    return f"(?:{'|'.join(branches)})"


def spans_in_rows(rows: Iterable[tuple[str, ...]], finder: Finder) -> Iterator[Span]:
    """Occurrences in rows, each given as its turns."""
    base = 0
    for row in rows:
        for turn in row:
            for start, text in finder.find(turn):
                yield Span(base + start, base + start + len(text), text, text == turn)
            base += len(turn)


def spans_in_blocks(blocks: Iterable[tuple[str, ...]], finder: Finder) -> Iterator[Span]:
    """Occurrences in one running text that comes in blocks; its rows are its lines."""
    base, held = 0, "\n"  # a line break before the first character makes it start a line
    keep = finder.longest + 2
    for (block,) in blocks:
        held += block
        stop = len(held) - keep
        if stop > 1:
            yield from _spans(held, 1, stop, base - 1, finder)
            base, held = base + stop - 1, held[stop - 1 :]
    yield from _spans(held, 1, len(held), base - 1, finder)


def _spans(held: str, first: int, stop: int, base: int, finder: Finder) -> Iterator[Span]:
    for start, text in finder.find(held, stop):
        if start >= first:
            end = start + len(text)
            whole = held[start - 1] == "\n" and held[end : end + 1] in ("\n", "")
            yield Span(base + start, base + end, text, whole)
