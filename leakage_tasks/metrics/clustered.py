"""Metrics over values of windows, with intervals over documents."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from leakage_tasks.attacks.suffix.finding import SelectedView
from leakage_tasks.metrics.aggregates import (
    Aggregate,
    Interval,
    ProbabilityBounds,
    SampledShare,
    ShareEnds,
    mean,
    of_defined,
    widened_by_draws,
)
from leakage_tasks.metrics.metric import Applies, Metric, MetricSpec, always
from leakage_tasks.stats.clusters import Ends, clustered_mean, clustered_share, studentized_mean, units

Row = Metric[SelectedView, Any]
Value = TypeVar("Value")
"""Type variable for the value of one pair: a number, or a small record for intervals that need more."""
Measure = Callable[[SelectedView], Value | None]


class OfDocument(NamedTuple, Generic[Value]):
    """A value of one window, and the number of its document."""

    value: Value
    document: int


@of_defined
def window_mean(values: list[OfDocument[float]]) -> float:
    """Return the mean over windows."""
    return statistics.fmean(value.value for value in values)


@of_defined
def document_count(values: list[OfDocument[Any]]) -> float:
    """Return the number of documents."""
    return len({value.document for value in values})


FEWEST_DOCUMENTS = 2
"""Minimum number of documents for the interval of a mean and for a comparison."""
DOCUMENT_MEAN = "by-document bootstrap-t (Student's t for few documents)"
PAIR_MEAN = f"{DOCUMENT_MEAN}; a single document: by pair"


def _ends(of: Callable[[Sequence[Any], Sequence[int]], Ends], end: int) -> Aggregate[OfDocument[Any]]:
    return of_defined(lambda values: of(*zip(*values, strict=True))[end])


def _interval(kind: str, of: Callable[[Sequence[Any], Sequence[int]], Ends]) -> Interval:
    return Interval(kind, _ends(of, 0), _ends(of, 1))


SHARE = _interval("by-document Korn-Graubard", clustered_share)
"""Interval of a share of windows."""


def _share_of_pairs(values: Sequence[float], documents: Sequence[int]) -> tuple[float, float]:
    return clustered_share(values, units(documents))


def _share_between(values: Sequence[ShareEnds], documents: Sequence[int]) -> tuple[float, float]:
    low, high = zip(*values, strict=True)
    return _share_of_pairs(low, documents)[0], _share_of_pairs(high, documents)[1]


PAIR_SHARE = _interval("by-document Korn-Graubard (a single document: Clopper-Pearson)", _share_of_pairs)
"""Interval of a share of pairs; it is Clopper and Pearson's if each pair is a document of its own, too."""
PAIR_SHARE_ENDS = _interval(PAIR_SHARE.kind, _share_between)
"""Interval of a share if the membership of some pairs is unknown; they count only for the upper end."""


@lru_cache(maxsize=2)
def _cached_mean(
    values: tuple[float, ...], documents: tuple[int, ...], least: float, most: float
) -> tuple[float, float]:
    """Return both ends, cached, because a bootstrap of many values takes seconds."""
    return clustered_mean(values, documents, least, most)


@lru_cache(maxsize=2)
def _bootstrap_t(values: tuple[float, ...], documents: tuple[int, ...]) -> Ends:
    return studentized_mean(values, documents)


def _mean(values: Sequence[float], documents: Sequence[int], least: float, most: float) -> Ends:
    ends = _cached_mean(tuple(values), tuple(documents), least, most)
    return ends if math.isfinite(sum(ends)) else (None, None)


def _share(values: Sequence[float], documents: Sequence[int]) -> tuple[float, float]:
    return _cached_mean(tuple(values), tuple(units(documents)), 0, 1)


def mean_between(least: float, most: float) -> Interval:
    """Return :func:`~leakage_tasks.stats.clusters.clustered_mean` by document of values from ``least`` to ``most``.

    A single document has no interval.
    """

    def of(values: Sequence[float], documents: Sequence[int]) -> Ends:
        return (None, None) if len(set(documents)) < FEWEST_DOCUMENTS else _mean(values, documents, least, most)

    return _interval(DOCUMENT_MEAN, of)


def pair_mean(least: float, most: float) -> Interval:
    """Return :func:`mean_between`; the interval of a single document is by pair."""
    return _interval(PAIR_MEAN, lambda values, documents: _mean(values, units(documents), least, most))


def _unlimited(values: Sequence[float], documents: Sequence[int]) -> Ends:
    return _bootstrap_t(tuple(values), tuple(units(documents))) if len(set(values)) > 1 else (None, None)


def _sampled(values: Sequence[SampledShare], documents: Sequence[int]) -> Ends:
    shares = [value.share for value in values]
    if not all(value.draws for value in values):
        return _share(shares, documents)
    return widened_by_draws(_share(shares, documents) if len(set(shares)) > 1 else (shares[0], shares[0]), values)


def _probability(values: Sequence[ProbabilityBounds], documents: Sequence[int]) -> Ends:
    low, high = zip(*values, strict=True)
    return _share(low, documents)[0], _share(high, documents)[1]


PAIR_UNLIMITED = _interval("by-document bootstrap-t; a single document: by pair", _unlimited)
"""Interval of the mean of values of pairs without limits, whose tails may be long."""
PAIR_SAMPLED = _interval(PAIR_MEAN, _sampled)
"""Interval of the mean of probabilities of pairs, some of which are estimated as shares of draws."""
PAIR_PROBABILITY = _interval(PAIR_MEAN, _probability)
"""Interval of the mean of probabilities of pairs that are known up to bounds."""


def by_document(value: Measure[Value], control: bool = False) -> Callable[[SelectedView], OfDocument[Value] | None]:
    """Return a function that adds the document to the value of a window: of controls, or of the data."""

    def of(selected: SelectedView) -> OfDocument[Value] | None:
        if selected.finding.control is not control:
            return None
        found = value(selected)
        return None if found is None else OfDocument(found, selected.document)

    return of


def share_rows(
    spec: MetricSpec,
    value: Measure[float],
    applies: Applies[SelectedView] = always,
    ends: Measure[ShareEnds] | None = None,
) -> list[Row]:
    """Return a share of pairs with its interval by document: three rows.

    Args:
        spec: Name, description and direction.
        value: Returns 1 for a pair in the share, 0 for another, None for a pair without a value.
        applies: Returns True if the results have the rows.
        ends: Returns the membership at both ends of its value, if some are unknown.
    """
    row = replace(spec, unit="share").row(value, mean, applies)
    if ends is None:
        return row.with_ends(PAIR_SHARE, by_document(value))
    return row.with_ends(PAIR_SHARE_ENDS, by_document(ends))


def mean_rows(spec: MetricSpec, value: Measure[float], applies: Applies[SelectedView], interval: Interval) -> list[Row]:
    """Return a mean over pairs with its interval by document: three rows."""
    return spec.row(value, mean, applies).with_ends(interval, by_document(value))


def clustered(
    spec: MetricSpec,
    value: Measure[float],
    interval: Interval,
    *,
    controls: bool,
    applies: Applies[SelectedView] = always,
    control_applies: Applies[SelectedView] | None = None,
    in_table: bool = False,
    value_in_table: bool = False,
) -> list[Row]:
    """Return the rows of one figure: its value and interval, also of the controls if there are any.

    Args:
        spec: Name, description, unit and direction.
        value: Returns the value of a window, None if it has no value.
        interval: Method of the interval.
        controls: True if the run has controls.
        applies: Returns True if the results have the row.
        control_applies: The same for the rows of the controls; by default ``applies``.
        in_table: True if the harness' table shows the figure with its interval.
        value_in_table: True if it shows the figure, and that of the controls, without their intervals.

    Returns:
        Three rows, or six.
    """
    name = f"control_{spec.name}"
    declared = replace(spec, control=name) if controls and spec.headline else spec
    first, *ends = declared.row(by_document(value), window_mean, applies, in_table).with_ends(interval)
    rows = [replace(first, in_table=in_table or value_in_table), *ends]
    if not controls:
        return rows
    words = f"{spec.name} of documents that the model never saw"
    control = MetricSpec(name, words, spec.unit).row(by_document(value, True), window_mean, control_applies or applies)
    shown, *ends = control.with_ends(interval)
    return [*rows, replace(shown, in_table=value_in_table), *ends]
