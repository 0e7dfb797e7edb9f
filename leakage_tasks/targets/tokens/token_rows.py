"""What a layout of token rows answers: the rows of a space's fillings, and where its slots stand in them."""

from __future__ import annotations

from typing import Protocol

from leakage_tasks.core.arrays import IntArray


class TokenRows(Protocol):
    """Token rows of a space's fillings, about which a text classifier or tagger is asked."""

    def of(self, values: IntArray) -> IntArray | list[list[int]]:
        """Rows of the texts whose first k slots hold ``values`` ``[n, k]`` (places in the slots' alphabets).

        With k below the number of slots the text ends before the next open slot.
        """

    def single(self, slot: int) -> IntArray | None:
        """The one token of each value of ``slot``, None where some value has several."""

    def tokens(self, slot: int) -> list[list[int]]:
        """The tokens of each value of ``slot`` in its place."""

    def column(self, slot: int) -> int | None:
        """Place of ``slot``'s token in the rows of ``slot + 1`` values, None as for :meth:`single`."""
