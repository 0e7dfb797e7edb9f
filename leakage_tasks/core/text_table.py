"""A table in plain text."""

from __future__ import annotations

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]], right: bool | Sequence[bool] = True) -> str:
    """Rows of cells with aligned columns, each to the ``right`` or left; one word for all is not for the first."""
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
