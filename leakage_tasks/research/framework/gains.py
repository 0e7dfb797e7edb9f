"""Gains of additions to a paper, computed from stored results."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from leakage_tasks.research.framework.report import Measured
from leakage_tasks.research.framework.stored_results import StoredResult

Gain = Callable[[StoredResult], Measured | None]
"""A function that computes a gain from a stored result; None if the result has no such gain."""


def cell_value(row: dict[str, Any], column: str) -> Gain:
    """Return the gain that one cell already contains as a difference."""

    def gain(result: StoredResult) -> Measured | None:
        cell = result.cell(row, column)
        return cell if isinstance(cell, Measured) else None

    return gain


def cell_excess(row: dict[str, Any], column: str, baseline: str) -> Gain:
    """Return the gain of a cell over a number without error in the column ``baseline``."""

    def gain(result: StoredResult) -> Measured | None:
        cell, known = result.cell(row, column), result.cell(row, baseline)
        if not isinstance(cell, Measured) or not isinstance(known, int | float):
            return None
        low, high = (None if end is None else end - known for end in (cell.low, cell.high))
        return Measured(cell.value - known, low, high, cell.count)

    return gain


def cell_difference(one: dict[str, Any], column: str, other: dict[str, Any], other_column: str = "") -> Gain:
    """Return the gain of one cell over another, whose column is ``other_column`` (default: ``column``)."""

    def gain(result: StoredResult) -> Measured | None:
        first, second = result.cell(one, column), result.cell(other, other_column or column)
        return difference(first, second) if isinstance(first, Measured) and isinstance(second, Measured) else None

    return gain


def difference(one: Measured, other: Measured) -> Measured:
    """Return the difference of two values with its MOVER interval (Zou and Donner 2008), computed from their intervals.

    The values are treated as independent, so the interval is too wide if both were measured on the same models. ``n``
    is the smaller count.
    """
    value, count = one.value - other.value, min(one.count, other.count)
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Measured(value, None, None, count)
    low = value - math.hypot(one.value - one.low, other.high - other.value)
    return Measured(value, low, value + math.hypot(one.high - one.value, other.value - other.low), count)


def mean_error(column: str, truth: str, baseline: str) -> Gain:
    """Return the mean over seeds by which a column is closer to the column ``truth`` than ``baseline`` is.

    Rows in which a value is not a number, such as a lower bound, are skipped.
    """

    def gain(result: StoredResult) -> Measured | None:
        by_seed: defaultdict[Any, list[float]] = defaultdict(list)
        for row in result.report.rows:
            value, true_value, baseline_value = row[column], row[truth], row[baseline]
            if (
                isinstance(value, int | float)
                and isinstance(true_value, int | float)
                and isinstance(baseline_value, int | float)
            ):
                by_seed[row["seed"]].append(abs(baseline_value - true_value) - abs(value - true_value))
        return mean_of_signed([fmean(errors) for errors in by_seed.values()])

    return gain


def mean_of_signed(values: Sequence[float]) -> Measured | None:
    """Return the mean of values of any sign with Student's interval, or None if there are no values."""
    if not values:
        return None
    shift = max(values) + 1
    shifted = Measured.mean([value - shift for value in values])
    low, high = (None if end is None else end + shift for end in (shifted.low, shifted.high))
    return Measured(shifted.value + shift, low, high, shifted.count)
