"""The protocol of a layout of token rows."""

from __future__ import annotations

from typing import Protocol

from leakage_tasks.core.arrays import IntArray


class TokenRows(Protocol):
    """The token rows of a space's fillings, as read by a text classifier or tagger."""

    def of(self, values: IntArray) -> IntArray | list[list[int]]:
        """Return rows of the texts whose first k slots hold ``values`` ``[n, k]`` (indices in the slots' alphabets).

        If k is less than the number of slots, the text ends before the next open slot.
        """

    def single(self, slot: int) -> IntArray | None:
        """Return the token of each value of ``slot``, or None if a value has several tokens."""

    def tokens(self, slot: int) -> list[list[int]]:
        """Return the tokens of each value of ``slot`` at its position in the text."""

    def column(self, slot: int) -> int | None:
        """Return the column of ``slot``'s token in rows of ``slot + 1`` values, or None as in :meth:`single`."""
