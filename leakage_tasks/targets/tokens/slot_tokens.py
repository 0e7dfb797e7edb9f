"""Token rows of a space's fillings, assembled from parts that are tokenized once.

A classifier reads tens of thousands of texts that differ in one word. Tokenizing all of them would take longer than a
small model's forward passes.
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
"""Fillings whose assembled rows are compared with their tokenization before the parts are used."""

Segments = list[list[int]]
"""Tokens of each value of an alphabet."""
Encode = Callable[[Sequence[str]], list[list[int]]]
Cut = tuple[list[int], list[tuple[int, int]]]
"""A text's tokens and, for each, its span of characters."""
Spans = Callable[[str], Cut | None]


def known_text(space: Space, head: Sequence[str]) -> str:
    """Return the text with the first slots filled, up to the next open slot.

    With all slots filled it is the whole text. If the slots end the text, it is the partial sequence of Elmahdy et al.,
    Equation 1, which ends at the last value.
    """
    if len(head) == len(space.slots):
        return space.fill(head)
    return space.begin(head).rstrip()


def slot_spans(space: Space, head: Sequence[str]) -> list[tuple[int, int]]:
    """Return the spans of characters of ``head``, the values of the first slots."""
    spans, end = [], 0
    for piece, value in zip(space.pieces, head, strict=False):
        start = end + len(piece)
        end = start + len(value)
        spans.append((start, end))
    return spans


def values_at(space: Space, indices: IntArray) -> list[Filling]:
    """Return the values at ``indices`` ``[n, k]`` of the first k slots' alphabets, one tuple for each row."""
    return [tuple(slot.values[index] for slot, index in zip(space.slots, row, strict=False)) for row in indices]


class SpaceRows:
    """The token rows of a space's fillings, complete or with the first slots filled.

    ``encode`` returns texts' tokens with special tokens; ``spans`` a text's tokens with each token's span of
    characters, or None if the tokenizer reports no spans. ``segments`` is the cache of each alphabet's tokens, shared
    by spaces. If the tokens of a value depend on more than the adjacent characters, every text is tokenized instead,
    which is slower but always correct.
    """

    def __init__(self, space: Space, encode: Encode, spans: Spans, segments: dict[Any, Segments | None]) -> None:
        self.space = space
        self._encode = encode
        self._spans = spans
        self._known_segments = segments
        self._parts_of = cache(self._trusted_parts)

    def of(self, values: IntArray) -> IntArray | list[list[int]]:
        """Return rows of the texts whose first k slots hold ``values`` ``[n, k]``: indices in the slots' alphabets.

        A text with open slots ends before the first of them. The result is an array ``[n, length]`` if all rows have
        equal length, else a list of rows.
        """
        values = np.asarray(values, dtype=np.int64)
        parts = self._parts_of(values.shape[1])
        if parts is None:
            return self._encode([known_text(self.space, head) for head in self.heads(values)])
        return parts.rows(values)

    def heads(self, values: IntArray) -> list[Filling]:
        """Return the values at indices ``values``, one tuple for each row."""
        return values_at(self.space, values)

    def single(self, slot: int) -> IntArray | None:
        """Return the token of each value of ``slot``, or None if a value has several or the parts are unreliable."""
        parts = self._parts_of(slot + 1)
        return None if parts is None else parts.tables[slot]

    def tokens(self, slot: int) -> Segments:
        """Return the tokens of each value of ``slot`` in the text, or in isolation if the parts are unreliable."""
        parts = self._parts_of(slot + 1)
        if parts is not None:
            return parts.segments[slot]
        space = " " * self.space.pieces[slot][-1:].isspace()
        special = set(self._encode([""])[0])
        rows = self._encode([space + value for value in self.space.slots[slot].values])
        return [[token for token in row if token not in special] for row in rows]

    def column(self, slot: int) -> int | None:
        """Return the column of ``slot``'s token in rows of ``slot + 1`` values, or None as in :meth:`single`."""
        parts = self._parts_of(slot + 1)
        if parts is None or any(table is None for table in parts.tables):
            return None
        return sum(map(len, parts.fixed[: slot + 1])) + slot

    def _trusted_parts(self, known: int) -> _Parts | None:
        """Return the parts of texts with ``known`` slots filled if a sample of rows agrees with the tokenizer."""
        parts = self._cut(known)
        if parts is None:
            return None
        stream = np.random.default_rng(0)
        sizes = [len(slot) for slot in self.space.slots[:known]]
        drawn = np.stack([stream.integers(size, size=SAMPLE) for size in sizes], axis=1)
        rows = parts.rows(drawn)
        assembled = rows.tolist() if isinstance(rows, np.ndarray) else rows
        texts = [known_text(self.space, head) for head in self.heads(drawn)]
        return parts if assembled == self._encode(texts) else None

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
            # Many tokenizers merge a word and the space before it into one token.
            covered = inside(spans, start - text[:start][-1:].isspace(), end)
            table = self._segments(index, text[max(start - 1, 0) : start], text[end : end + 1])
            if not covered or table is None:
                return None
            fixed.append(tokens[done : covered[0]])
            segments.append(table)
            done = covered[-1] + 1
        return _Parts([*fixed, tokens[done:]], segments)

    def _segments(self, slot: int, before: str, after: str) -> Segments | None:
        """Return the tokens of every value of a slot, cached by the characters before and after the slot."""
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


def _within_a_word(text: str, position: int) -> bool:
    """Return True if both neighbours of ``position`` are letters or digits, which may share one token."""
    return 0 < position < len(text) and text[position - 1].isalnum() and text[position].isalnum()


def inside(spans: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    """Return the indices of the tokens that overlap characters ``start`` to ``end``."""
    return [index for index, (left, right) in enumerate(spans) if left < end and right > start]


def _cut_out(first: Cut, rows: Sequence[list[int]], start: int, end: int) -> Segments | None:
    """Return the tokens in which rows of different values differ.

    The first row's value has characters ``start`` to ``end``. None if the rows also differ elsewhere.
    """
    tokens, spans = first
    covered = inside(spans, start, end)
    if not covered:
        return None
    head, tail = tokens[: covered[0]], tokens[covered[-1] + 1 :]
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
        for fixed, table, indices in zip(self.fixed, tables, values.T, strict=False):
            columns += [np.broadcast_to(np.array(fixed, dtype=np.int64), (len(values), len(fixed)))]
            columns += [table[indices][:, None]]
        last = np.array(self.fixed[-1], dtype=np.int64)
        return np.concatenate([*columns, np.broadcast_to(last, (len(values), len(last)))], axis=1)

    def _row(self, values: list[int]) -> list[int]:
        row: list[int] = []
        for fixed, segments, value in zip(self.fixed, self.segments, values, strict=False):
            row += fixed + segments[value]
        return row + self.fixed[-1]
