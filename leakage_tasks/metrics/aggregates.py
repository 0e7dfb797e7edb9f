"""Aggregations over documents that skip undefined values; over none of them the aggregate is None.

The harness' own would bootstrap, or choke on a missing value.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from leakage_tasks.intervals import bootstrap_mean, clopper_pearson

Values = Sequence[float | None]
Aggregate = Callable[[Values], float | None]


def _over(values: Values, aggregate: Callable[[list[float]], float]) -> float | None:
    defined = [value for value in values if value is not None]
    return float(aggregate(defined)) if defined else None


def mean(values: Values) -> float | None:
    """Mean of the defined values."""
    return _over(values, statistics.fmean)


def median(values: Values) -> float | None:
    """Median of the defined values."""
    return _over(values, statistics.median)


def maximum(values: Values) -> float | None:
    """Largest defined value."""
    return _over(values, max)


def count(values: Values) -> int:
    """Number of defined values."""
    return sum(value is not None for value in values)


def share_low(values: Values) -> float | None:
    """Lower end of the Clopper-Pearson interval of the share of values that are 1."""
    return _over(values, lambda hits: clopper_pearson(round(sum(hits)), len(hits))[0])


def share_high(values: Values) -> float | None:
    """Upper end of the Clopper-Pearson interval of the share of values that are 1."""
    return _over(values, lambda hits: clopper_pearson(round(sum(hits)), len(hits))[1])


def bootstrap_low(values: Values) -> float | None:
    """Lower end of the percentile bootstrap interval of the mean."""
    return _over(values, lambda defined: bootstrap_mean(defined)[0])


def bootstrap_high(values: Values) -> float | None:
    """Upper end of the percentile bootstrap interval of the mean."""
    return _over(values, lambda defined: bootstrap_mean(defined)[1])
