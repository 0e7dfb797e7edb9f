"""Where a row's text is cut, which tells a copy that was cut off from one that was changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from leakage_tasks.training.preflight.copies import Copy, Spelling

NEAR = 4
"""Characters beside a secret that tell a piece of a copy from other words."""
HALF = "\ufffd"
"""What a cut leaves of a character whose other tokens it took."""


class Edges:
    """Ends of rows, of the examples packed into them, and special tokens: where truncation and packing cut."""

    def __init__(self, tokenizer: Any, spelling: Spelling) -> None:
        self._spelling = spelling
        special = sorted({spelling(each) for each in getattr(tokenizer, "all_special_tokens", ())} - {""})
        any_special = "|".join(map(re.escape, special))
        self._after = re.compile(rf"{HALF}*(?:{any_special}|$)" if special else rf"{HALF}*$")
        self._before = re.compile(rf"(?:{any_special})$" if special else r"(?!)")

    def cuts(self, copy: Copy, text: str, starts: Sequence[int]) -> bool:
        """Whether a copy with a part missing in a row's spelled ``text`` was cut off there.

        ``starts`` are the characters with which packed examples begin. Where neither the row nor an example ends, the
        copy goes on with other words than the canary's: it was changed.
        """
        if copy.bare:
            near = _any_in(starts, copy.start - NEAR, copy.end + NEAR)
            return near or self._stands_as_planted(copy, text)
        # What comes after a cut may by chance go on as the canary does.
        if copy.tail:
            return (
                copy.edge == 0 or bool(self._before.search(text[: copy.edge])) or _any_in(starts, copy.edge, copy.end)
            )
        return bool(self._after.match(text, copy.edge)) or _any_in(starts, copy.start, copy.edge)

    def _stands_as_planted(self, copy: Copy, text: str) -> bool:
        """Whether the characters beside a secret, as far as the row has any, are the canary's own."""
        pieces = copy.canary.space.pieces
        own = self._spelling(pieces[0])[-NEAR:], self._spelling(pieces[-1])[:NEAR]
        there = text[max(0, copy.start - NEAR) : copy.start], text[copy.end : copy.end + NEAR]
        return own[0].endswith(there[0][-len(own[0]) :]) and own[1].startswith(there[1][: len(own[1])])


def _any_in(starts: Sequence[int], first: int, last: int) -> bool:
    return any(first <= start <= last for start in starts)
