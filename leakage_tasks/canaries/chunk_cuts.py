"""Which copies a training run would cut in two when it chops the concatenated text into equal chunks."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from leakage_tasks.canaries.alphabets import load_tokenizer
from leakage_tasks.canaries.search import Span
from leakage_tasks.core.errors import OptionError

SEGMENT = 1 << 16
_ROWS = 256


def cut_by_characters(spans: Iterable[Span], chunk: int) -> list[Span]:
    """Spans that do not lie in one chunk of ``chunk`` characters."""
    return [span for span in spans if span.start // chunk != (span.end - 1) // chunk]


def cut_by_tokens(
    texts: Iterator[tuple[str, ...]], running: bool, spans: Sequence[Span], chunk: int, tokenizer: str
) -> list[Span]:
    """Spans that do not lie in one chunk of ``chunk`` tokens.

    Rows are tokenized one by one, with the tokenizer's special tokens, and concatenated, as the usual
    training scripts do. A running text is tokenized in segments that end at line breaks, without special
    tokens. Raises OptionError if the tokenizer cannot say which characters a token covers.
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
                first, last = _edges(offsets, span.start - characters, span.end - characters)
                if (tokens + first) // chunk != (tokens + last) // chunk:
                    cut.append(span)
            characters += len(text)
            tokens += len(offsets)
    return cut


def _edges(offsets: Sequence[tuple[int, int]], start: int, end: int) -> tuple[int, int]:
    """First and last token that cover characters ``start`` to ``end``."""
    covering = [place for place, (left, right) in enumerate(offsets) if left < end and right > start]
    return (covering[0], covering[-1]) if covering else (0, 0)


def _segments(blocks: Iterator[tuple[str, ...]], spans: Sequence[Span]) -> Iterator[str]:
    """The running text in segments that end at a line break where they can, and never inside a span."""
    starts = [span.start for span in spans]
    held, base = "", 0
    for (block,) in blocks:
        held += block
        while len(held) > 2 * SEGMENT:
            end = held.rfind("\n", 0, SEGMENT) + 1 or SEGMENT
            place = bisect_left(starts, base + end) - 1
            if place >= 0 and spans[place].end > base + end:
                end = spans[place].end - base
            piece, held = held[:end], held[end:]
            base += len(piece)
            yield piece
    if held:
        yield held


def check_chunk(chunk: int | None, tokenizer: Any) -> None:
    """Raise OptionError for a chunk length that is none, or a tokenizer without one."""
    if chunk is not None and chunk < 1:
        raise OptionError(f"--chunk is {chunk}: give a length of 1 or more")
    if tokenizer is not None and chunk is None:
        raise OptionError("--tokenizer says what --chunk counts: give --chunk N too")
