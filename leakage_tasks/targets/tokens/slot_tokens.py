"""Token rows of a space's fillings, put together from parts that are tokenized once.

A classifier is asked about tens of thousands of texts that differ in one word. Tokenizing each of them would take
longer than a small model takes to read it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from leakage_tasks.canaries.spaces import Filling, Space
from leakage_tasks.core.arrays import IntArray

SAMPLE = 48
"""Fillings whose rows are compared with their tokenization before parts are trusted."""

Segments = list[list[int]]
"""Tokens of each value of an alphabet."""
Encode = Callable[[Sequence[str]], list[list[int]]]
Cut = tuple[list[int], list[tuple[int, int]]]
"""A text's tokens and, for each, its span of characters."""
Spans = Callable[[str], Cut | None]


def known_text(space: Space, head: Sequence[str]) -> str:
    """The text with the first slots filled, as far as it is known then: up to the next open slot.

    With all slots filled it is the whole text. Where the slots end the text this is the partial sequence of
    Elmahdy et al., Equation 1, which ends at the last value.
    """
    if len(head) == len(space.slots):
        return space.fill(head)
    return space.begin(head).rstrip()


def slot_spans(space: Space, head: Sequence[str]) -> list[tuple[int, int]]:
    """The characters that ``head``, the values of the first slots, stand in."""
    spans, end = [], 0
    for piece, value in zip(space.pieces, head, strict=False):
        start = end + len(piece)
        end = start + len(value)
        spans.append((start, end))
    return spans


def values_at(space: Space, places: IntArray) -> list[Filling]:
    """The strings at ``places`` ``[n, k]`` of the first k slots' alphabets, one tuple a row."""
    return [tuple(slot.values[place] for slot, place in zip(space.slots, row, strict=False)) for row in places]


class SpaceRows:
    """Token rows of a space's fillings, whole or as far as they are known.

    ``encode`` gives texts' tokens with special ones; ``spans`` a text's and each token's span of characters, or None
    where the tokenizer does not tell. ``segments`` keeps each alphabet's tokens for the next space. Where the tokens of
    a value depend on more than the characters next to it, every text is tokenized instead: slower, never wrong.
    """

    def __init__(self, space: Space, encode: Encode, spans: Spans, segments: dict[Any, Segments | None]) -> None:
        self.space = space
        self._encode = encode
        self._spans = spans
        self._known_segments = segments
        self._parts_of = cache(self._trusted_parts)

    def of(self, values: IntArray) -> IntArray | list[list[int]]:
        """Rows of the texts whose first slots hold ``values``, shape ``[n, k]``: places in the slots' alphabets.

        One array ``[n, length]`` where all rows are equally long, else a list of rows.
        """
        values = np.asarray(values, dtype=np.int64)
        parts = self._parts_of(values.shape[1])
        if parts is None:
            return self._encode([known_text(self.space, head) for head in self.heads(values)])
        return parts.rows(values)

    def heads(self, values: IntArray) -> list[Filling]:
        """The strings that ``values`` stand for, one tuple a row."""
        return values_at(self.space, values)

    def single(self, slot: int) -> IntArray | None:
        """The one token of each value of ``slot``, or None where some value has more or parts cannot be trusted."""
        parts = self._parts_of(slot + 1)
        return None if parts is None else parts.tables[slot]

    def tokens(self, slot: int) -> Segments:
        """The tokens of each value of ``slot``, where it stands; by themselves where parts cannot be trusted."""
        parts = self._parts_of(slot + 1)
        if parts is not None:
            return parts.segments[slot]
        space = " " * self.space.pieces[slot][-1:].isspace()
        special = set(self._encode([""])[0])
        rows = self._encode([space + value for value in self.space.slots[slot].values])
        return [[token for token in row if token not in special] for row in rows]

    def column(self, slot: int) -> int | None:
        """Place of ``slot``'s one token in the rows of ``slot + 1`` values, None as for :meth:`single`."""
        parts = self._parts_of(slot + 1)
        if parts is None or any(table is None for table in parts.tables):
            return None
        return sum(map(len, parts.fixed[: slot + 1])) + slot

    def _trusted_parts(self, known: int) -> _Parts | None:
        """The parts of texts with ``known`` slots filled, once a sample of rows agrees with the tokenizer."""
        parts = self._cut(known)
        if parts is None:
            return None
        stream = np.random.default_rng(0)
        sizes = [len(slot) for slot in self.space.slots[:known]]
        drawn = np.stack([stream.integers(size, size=SAMPLE) for size in sizes], axis=1)
        rows = parts.rows(drawn)
        found = rows.tolist() if isinstance(rows, np.ndarray) else rows
        texts = [known_text(self.space, head) for head in self.heads(drawn)]
        return parts if found == self._encode(texts) else None

    def _cut(self, known: int) -> _Parts | None:
        head = tuple(slot.values[0] for slot in self.space.slots[:known])
        text = known_text(self.space, head)
        cut = self._spans(text)
        if cut is None:
            return None
        tokens, spans = cut
        fixed, segments, done = [], [], 0
        for index, (start, end) in enumerate(slot_spans(self.space, head)):
            if _within_a_word(text, start) or _within_a_word(text, end):
                return None
            # Many tokenizers write a word and the space before it as one token.
            own = inside(spans, start - text[:start][-1:].isspace(), end)
            table = self._segments(index, text[max(start - 1, 0) : start], text[end : end + 1])
            if not own or table is None:
                return None
            fixed.append(tokens[done : own[0]])
            segments.append(table)
            done = own[-1] + 1
        return _Parts([*fixed, tokens[done:]], segments)

    def _segments(self, slot: int, before: str, after: str) -> Segments | None:
        """Tokens of every value of a slot, found once for the characters that stand next to it."""
        values = self.space.slots[slot].values
        key = (values, before, after)
        if key not in self._known_segments:
            left = "a" + before if before else ""
            texts = [f"{left}{value}{after}" for value in values]
            cut = self._spans(texts[0])
            start = len(left) - before.isspace()
            known = None if cut is None else _cut_out(cut, self._encode(texts), start, len(left) + len(values[0]))
            self._known_segments[key] = known
        return self._known_segments[key]


def _within_a_word(text: str, place: int) -> bool:
    """Whether letters or digits stand on both sides of ``place``, which a tokenizer may put into one token."""
    return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()


def inside(spans: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """Places of the tokens that reach into characters ``start`` to ``end``."""
    return [index for index, (left, right) in enumerate(spans) if left < end and right > start]


def _cut_out(first: Cut, rows: Sequence[list[int]], start: int, end: int) -> Segments | None:
    """What differs between rows that hold a value each, the first one's in characters ``start`` to ``end``."""
    tokens, spans = first
    own = inside(spans, start, end)
    if not own:
        return None
    head, tail = tokens[: own[0]], tokens[own[-1] + 1 :]
    around, end = len(head) + len(tail), len(tail)
    if any(len(row) <= around or row[: len(head)] != head or row[len(row) - end :] != tail for row in rows):
        return None
    return [row[len(head) : len(row) - end] for row in rows]


@dataclass
class _Parts:
    """``fixed[0] slot 0 fixed[1] slot 1 … fixed[-1]``, slots from ``segments``."""

    fixed: list[list[int]]
    segments: list[Segments]

    def __post_init__(self) -> None:
        self.tables = [
            np.array(table, dtype=np.int64)[:, 0] if all(len(tokens) == 1 for tokens in table) else None
            for table in self.segments
        ]

    def rows(self, values: IntArray) -> IntArray | list[list[int]]:
        tables = [table for table in self.tables if table is not None]
        if len(tables) < len(self.tables):
            return [self._row(row) for row in values.tolist()]
        columns = []
        for fixed, table, places in zip(self.fixed, tables, values.T, strict=False):
            columns += [np.broadcast_to(np.array(fixed, dtype=np.int64), (len(values), len(fixed)))]
            columns += [table[places][:, None]]
        last = np.array(self.fixed[-1], dtype=np.int64)
        return np.concatenate([*columns, np.broadcast_to(last, (len(values), len(last)))], axis=1)

    def _row(self, values: list[int]) -> list[int]:
        row: list[int] = []
        for fixed, segments, place in zip(self.fixed, self.segments, values, strict=False):
            row += fixed + segments[place]
        return row + self.fixed[-1]
