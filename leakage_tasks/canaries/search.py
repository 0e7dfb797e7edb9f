"""Streaming search for canaries' texts in a dataset, and for copies that chunks of equal length would cut."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from os.path import commonprefix

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.core.errors import OptionError
from leakage_tasks.data.additions import BREAK

ANCHOR = 12
SEGMENT = 1 << 16
_ROWS = 256


@dataclass(frozen=True)
class Span:
    """An occurrence at ``start``..``end``, in characters of the concatenated texts.

    ``whole`` is True if it is a complete row (line, chat turn), not a part of a longer one.
    """

    start: int
    end: int
    text: str
    whole: bool


class Finder:
    """A search for many texts at once; if one text begins with another, the longer one is reported."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = set(texts)
        self.lengths = sorted({len(text) for text in self.texts}, reverse=True)
        self._anchor = re.compile(_any_of(sorted({text[:ANCHOR] for text in self.texts})) or r"(?!)")

    def find(self, text: str, stop: int | None = None) -> Iterator[tuple[int, str]]:
        """Yield the start and text of every occurrence that starts before ``stop``, including overlapping ones."""
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
    """Return a pattern for any of the sorted words; it branches letter by letter, because a flat list of words is
    slow."""
    if not words or not words[0]:
        return ""
    branches = []
    for _, group in groupby(words, key=itemgetter(0)):
        members = list(group)
        shared = commonprefix(members)
        branches.append(re.escape(shared) + _any_of([word[len(shared) :] for word in members]))
    return f"(?:{'|'.join(branches)})"


def spans_in_rows(rows: Iterable[tuple[str, ...]], finder: Finder, shared: bool = False) -> Iterator[Span]:
    """Yield the occurrences in rows, which are given as tuples of turns.

    With ``shared``, an occurrence that ends a longer turn after a line break also counts as whole.
    """
    base = 0
    for row in rows:
        for turn in row:
            for start, text in finder.find(turn):
                whole = text == turn or (shared and turn.endswith(BREAK + text) and start + len(text) == len(turn))
                yield Span(base + start, base + start + len(text), text, whole)
            base += len(turn)


def spans_in_blocks(blocks: Iterable[tuple[str, ...]], finder: Finder) -> Iterator[Span]:
    """Yield the occurrences in a running text, which is given in blocks and whose rows are its lines."""
    base, held = 0, "\n"  # a line break before the first character makes it start a line
    keep = max(finder.lengths, default=0) + 2
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


def cut_by_characters(spans: Iterable[Span], chunk: int) -> list[Span]:
    """Return the spans that do not lie in a single chunk of ``chunk`` characters."""
    return [span for span in spans if span.start // chunk != (span.end - 1) // chunk]


def cut_by_tokens(
    texts: Iterator[tuple[str, ...]], running: bool, spans: Sequence[Span], chunk: int, tokenizer: str
) -> list[Span]:
    """Return the spans that do not lie in a single chunk of ``chunk`` tokens.

    Rows are tokenized one by one, with the tokenizer's special tokens, and concatenated, like in common training
    scripts. A running text is tokenized without special tokens, in segments that end at line breaks.

    Args:
        texts: The rows' texts, or the blocks of a running text.
        running: True for a running text.
        spans: The occurrences, in order.
        chunk: The length of a chunk in tokens.
        tokenizer: The folder or hub name of a tokenizer.

    Raises:
        OptionError: If the tokenizer does not report the characters of a token.
    """
    loaded = load_tokenizer(tokenizer)
    if not loaded.is_fast:
        raise OptionError(f"tokenizer {tokenizer!r} cannot map tokens to characters: use one with a tokenizer.json")
    segments = _segments(texts, spans) if running else ("".join(turns) for turns in texts)
    cut: list[Span] = []
    waiting = list(spans)[::-1]
    characters = tokens = 0
    while batch := list(islice(segments, _ROWS if not running else 1)):
        encoded = loaded(batch, add_special_tokens=not running, return_offsets_mapping=True, verbose=False)
        for text, offsets in zip(batch, encoded["offset_mapping"], strict=True):
            while waiting and waiting[-1].start < characters + len(text):
                span = waiting.pop()
                first, last = _token_range(offsets, span.start - characters, span.end - characters)
                if (tokens + first) // chunk != (tokens + last) // chunk:
                    cut.append(span)
            characters += len(text)
            tokens += len(offsets)
    return cut


def _token_range(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """Return the first and the last token that overlap the characters ``start`` to ``end``."""
    covering = [index for index, (left, right) in enumerate(offsets) if left < end and right > start]
    return (covering[0], covering[-1]) if covering else (0, 0)


def _segments(blocks: Iterator[tuple[str, ...]], spans: Sequence[Span]) -> Iterator[str]:
    """Yield the running text in segments that end at a line break if possible, and never inside a span."""
    starts = [span.start for span in spans]
    held, base = "", 0
    for (block,) in blocks:
        held += block
        while len(held) > 2 * SEGMENT:
            end = held.rfind("\n", 0, SEGMENT) + 1 or SEGMENT
            last = bisect_left(starts, base + end) - 1
            if last >= 0 and spans[last].end > base + end:
                end = spans[last].end - base
            piece, held = held[:end], held[end:]
            base += len(piece)
            yield piece
    if held:
        yield held
