"""Plain-text tables."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], right: bool | Sequence[bool] = True) -> str:
    """Return rows of cells with aligned columns; ``right`` holds, for each column, True to align it to the right.

    A single value applies to all columns but the first, which is aligned to the left.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [False, *[right] * (len(widths) - 1)] if isinstance(right, bool) else right
    lines = (
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, sides, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)
