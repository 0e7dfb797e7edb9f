"""What an addition to a paper gains, from a stored result."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from leakage_tasks.research.framework.report import Measured
from leakage_tasks.research.framework.stored_results import StoredResult

Gain = Callable[[StoredResult], Measured | None]
"""A gain in a stored result; None where it has none."""


def cell_itself(row: dict[str, Any], column: str) -> Gain:
    """What one cell has, a difference already."""

    def gain(result: StoredResult) -> Measured | None:
        found = result.cell(row, column)
        return found if isinstance(found, Measured) else None

    return gain


def cell_above(row: dict[str, Any], column: str, beside: str) -> Gain:
    """How much more one cell has than the number in the column ``beside`` it, which is known without error."""

    def gain(result: StoredResult) -> Measured | None:
        found, known = result.cell(row, column), result.cell(row, beside)
        if not isinstance(found, Measured) or not isinstance(known, int | float):
            return None
        low, high = (None if end is None else end - known for end in (found.low, found.high))
        return Measured(found.value - known, low, high, found.count)

    return gain


def cells_apart(one: dict[str, Any], column: str, other: dict[str, Any], beside: str = "") -> Gain:
    """How much more one cell has than another (in the column ``beside``, or the same)."""

    def gain(result: StoredResult) -> Measured | None:
        first, second = result.cell(one, column), result.cell(other, beside or column)
        return apart(first, second) if isinstance(first, Measured) and isinstance(second, Measured) else None

    return gain


def apart(one: Measured, other: Measured) -> Measured:
    """The difference of two figures, with the interval that follows from theirs (MOVER, Zou and Donner 2008).

    It takes them for independent, and is too wide where both were measured on the same models. ``n`` is the smaller.
    """
    value, count = one.value - other.value, min(one.count, other.count)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Measured(value, None, None, count)
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    return Measured(value, low, value + math.hypot(one.high - one.value, other.value - other.low), count)


def mean_error(column: str, truth: str, than: str) -> Gain:
    """How much nearer to the ``truth`` a column's numbers are than those of ``than``, a mean over seeds.

    Rows where one of the three is no number, such as a lower bound, are left out.
    """

    def gain(result: StoredResult) -> Measured | None:
        by_seed: defaultdict[Any, list[float]] = defaultdict(list)
        for row in result.report.rows:
            own, true, other = row[column], row[truth], row[than]
            if isinstance(own, int | float) and isinstance(true, int | float) and isinstance(other, int | float):
                by_seed[row["seed"]].append(abs(other - true) - abs(own - true))
        return signed_mean([fmean(each) for each in by_seed.values()])

    return gain


def signed_mean(values: Sequence[float]) -> Measured | None:
    """Their mean with Student's interval, also where none is negative; None for no values."""
    if not values:
        return None
    shift = max(values) + 1
    found = Measured.mean([each - shift for each in values])
    low, high = (None if end is None else end + shift for end in (found.low, found.high))
    return Measured(found.value + shift, low, high, found.count)
