"""Cuts in the text of a row, which distinguish a copy that was cut from a copy that was changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from leakage_tasks.training.preflight.copies import Copy, Spelling

NEAR = 4
"""Number of characters next to a secret that distinguish a piece of a copy from other words."""
HALF = "\ufffd"
"""The remainder of a character if a cut removed some of its tokens."""


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
